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
  for (const name of Object.keys(attributes)) {
    const value = attributes[name];
    if (value !== false && value !== undefined) kept[name] = value === true ? '' : String(value);
  }
  const nodes: Node[] = [];
  gather(children, nodes);
  return { tag, attributes: kept, children: nodes };
}

function gather(children: readonly Child[], into: Node[]): void {
  for (const child of children) {
    if (isList(child)) gather(child, into);
    else if (typeof child === 'number') into.push(String(child));
    else if (child !== false && child !== undefined && child !== '') into.push(child);
  }
}

function isList(child: Child): child is readonly Child[] {
  return Array.isArray(child);
}
