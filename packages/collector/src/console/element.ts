/**
 * The page as a value: made by one set of functions, written as HTML by the collector (`html.ts`) and kept up to date in
 * the browser (`live-tree.ts`). Neither writer has a way to put markup into it: what is not an element is text.
 */

export interface Element {
  readonly tag: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: readonly Node[];
}

export type Node = Element | string;

/** A number is written as it is; false and undefined are nothing. */
export type Child = Node | number | false | undefined | readonly Child[];

/** An attribute that is `true` is there without a value; one that is false or undefined is not. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Tags and names of attributes are ours, and never data. */
export function h(tag: string, attributes: Attributes = {}, ...children: readonly Child[]): Element {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== undefined) kept[name] = value === true ? '' : String(value);
  }
  return { tag, attributes: kept, children: [...flat(children)] };
}

function* flat(children: readonly Child[]): Generator<Node> {
  for (const child of children) {
    if (isList(child)) yield* flat(child);
    else if (typeof child === 'number') yield String(child);
    else if (child !== false && child !== undefined && child !== '') yield child;
  }
}

function isList(child: Child): child is readonly Child[] {
  return Array.isArray(child);
}
