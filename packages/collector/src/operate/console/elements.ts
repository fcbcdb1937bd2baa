import type { ConsoleState } from './console-state.js';

/*
 * The page as a value: made by one set of functions, written as HTML by the collector (`toHtml`) and kept up to date in
 * the browser (`live.ts`). Neither writer has a way to put markup into it: what is not an element is text.
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

/* Writes elements as HTML: what a browser shows before, or without, the page's script. */

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Every element has an end tag, so none of those that HTML calls void may be among them. */
export function toHtml(node: Node): string {
  if (typeof node === 'string') return escaped(node);
  let html = `<${node.tag}`;
  for (const name of Object.keys(node.attributes))
    html += ` ${name}="${escaped(node.attributes[name] ?? '')}"`;
  html += '>';
  for (const child of node.children) html += toHtml(child);
  return `${html}</${node.tag}>`;
}

function escaped(text: string): string {
  return /[&<>"']/.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '') : text;
}

/* What the page is made of, and the pieces that its parts share. */

export interface View {
  readonly state: ConsoleState;
  /**
   * `page`: as the collector wrote it, without the script. `live`: the collector has just answered. Else the last answer
   * came then, and why there is none.
   */
  readonly connection: 'page' | 'live' | Lost;
  /** Seconds before the end of the charts that the reader points at. */
  readonly marked: number | undefined;
  /** The time of day, in the zone of the reader if that is known. @param at milliseconds since 1970 */
  readonly timeOfDay: (at: number) => string;
}

export interface Lost {
  /** Milliseconds since 1970 by the reader's clock. */
  readonly since: number;
  readonly reason: string;
}

/** When the state was taken: ages are told from then, by the collector's own clock. */
export function takenAt({ state }: View): number {
  return Date.parse(state.at);
}

/** A part of the page under a heading. @param note a few words beside the heading. */
export function card(id: string, title: string, note: Child, ...content: readonly Child[]): Element {
  const heading = `${id}-heading`;
  return h(
    'section',
    { id, class: 'card', 'aria-labelledby': heading },
    h(
      'div',
      { class: 'head' },
      h('h2', { id: heading }, title),
      note !== '' && h('p', { class: 'note' }, note),
    ),
    content,
  );
}

export interface Fact {
  readonly name: string;
  readonly value: Child;
  readonly more?: Child;
}

/** Names and values, one under the other. */
export function facts(list: readonly Fact[]): Element {
  return h(
    'dl',
    { class: 'facts' },
    list.map(({ name, value, more }) =>
      h(
        'div',
        {},
        h('dt', {}, name),
        h('dd', {}, value, more !== undefined && h('span', { class: 'more' }, more)),
      ),
    ),
  );
}

export type Mood = 'good' | 'idle' | 'warning' | 'critical';

/** A state in a word, never by colour alone. */
export function chip(mood: Mood, text: string): Element {
  return h('span', { class: `chip ${mood}` }, text);
}

/** How much of a whole, for the eye: the number stands beside it. */
export function bar(part: number, className = ''): Element {
  return h(
    'svg',
    { class: `bar ${className}`.trim(), 'aria-hidden': 'true' },
    h('rect', { class: 'whole', width: '100%', height: '100%', rx: 3 }),
    h('rect', {
      class: 'part',
      width: `${Math.round(Math.min(1, Math.max(0, part)) * 1000) / 10}%`,
      height: '100%',
      rx: 3,
    }),
  );
}

export interface Column {
  readonly name: string;
  /** `number`: set to the right. */
  readonly className?: string;
}

/**
 * A table that stays one, or whose rows become blocks on a narrow screen, where each value bears the name of its column.
 * The roles say what the style sheet would else take from it there.
 * @param rows the first cell of each is its heading.
 */
export function table(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly Child[])[],
  narrow: 'stays' | 'stacks' = 'stays',
): Element {
  const className = (i: number) => columns[i]?.className;
  return h(
    'table',
    { role: 'table', class: narrow },
    h('caption', {}, caption),
    h(
      'thead',
      { role: 'rowgroup' },
      h(
        'tr',
        { role: 'row' },
        columns.map(({ name }, i) =>
          h('th', { role: 'columnheader', scope: 'col', class: className(i) }, name),
        ),
      ),
    ),
    h(
      'tbody',
      { role: 'rowgroup' },
      rows.map((cells) =>
        h(
          'tr',
          { role: 'row' },
          cells.map((cell, i) =>
            i === 0
              ? h('th', { role: 'rowheader', scope: 'row', class: className(i) }, cell)
              : h('td', { role: 'cell', class: className(i), 'data-column': columns[i]?.name }, cell),
          ),
        ),
      ),
    ),
  );
}
