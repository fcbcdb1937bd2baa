/** What the page is made of, and the pieces that its parts share. */
import type { ConsoleState } from './console-state.js';
import { h, type Child, type Element } from './element.js';

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
