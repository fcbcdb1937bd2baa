/** Templates of markup, and the elements that the page's parts share. */
import library from 'htm';
import { type ComponentChildren, h, type VNode } from 'preact';
import type { ConsoleState } from './console-state.js';

export type Element = VNode;
export type Child = ComponentChildren;

type Template = (template: TemplateStringsArray, ...values: unknown[]) => Element;
/** The library's types are those of its CommonJS form. */
const htm = library as unknown as { bind(create: typeof h): Template };

/**
 * Markup with values in it. A value is always text. As in JSX, a line break with the spaces around it is
 * dropped. Not named `html`, because Prettier would move line breaks as if they were spaces.
 */
export const markup = htm.bind(h);

export interface View {
  readonly state: ConsoleState;
  /**
   * `page`: rendered by the collector, without the script. `live`: the collector has just answered. Otherwise
   * the time since which there is no answer, and the reason.
   */
  readonly connection: 'page' | 'live' | Lost;
  /** Seconds before the end of the charts at which the reader points. */
  readonly marked: number | undefined;
  /** The time of day, in the reader's zone if known. @param at milliseconds since 1970 */
  readonly timeOfDay: (at: number) => string;
}

export interface Lost {
  /** Milliseconds since 1970 by the reader's clock. */
  readonly since: number;
  readonly reason: string;
}

/** When the state was taken: ages are computed from it, by the collector's clock. */
export function takenAt({ state }: View): number {
  return Date.parse(state.at);
}

/** A part of the page with a heading. @param note a few words after the heading. */
export function card(id: string, title: string, note: string, ...content: readonly Child[]): Element {
  return markup`
    <section id=${id} class="card" aria-labelledby=${`${id}-heading`}>
      <div class="head">
        <h2 id=${`${id}-heading`}>${title}</h2>
        ${note !== '' && markup`<p class="note">${note}</p>`}
      </div>
      ${content}
    </section>
  `;
}

export interface Fact {
  readonly name: string;
  readonly value: Child;
  readonly more?: Child;
}

/** Names and values, one per line. */
export function facts(list: readonly Fact[]): Child {
  if (list.length === 0) return false;
  return markup`
    <dl class="facts">
      ${list.map(
        ({ name, value, more }) => markup`
          <div>
            <dt>${name}</dt>
            <dd>${value}${more !== undefined && small(more)}</dd>
          </div>
        `,
      )}
    </dl>
  `;
}

/** Small print on a separate line, after a value. */
export function small(text: Child): Element {
  return markup`<span class="more">${text}</span>`;
}

export type Mood = 'good' | 'idle' | 'warning' | 'critical';

/** A state as a word, never by colour alone. */
export function chip(mood: Mood, text: string): Element {
  return markup`<span class=${`chip ${mood}`}>${text}</span>`;
}

/** A bar for a share; the number is printed next to it. */
export function bar(part: number, mood = ''): Element {
  const width = `${Math.round(Math.min(1, Math.max(0, part)) * 1000) / 10}%`;
  return markup`
    <svg class=${`bar ${mood}`.trim()} aria-hidden="true">
      <rect class="whole" width="100%" height="100%" rx="3" />
      <rect class="part" width=${width} height="100%" rx="3" />
    </svg>
  `;
}

/** A bar with its number. */
export function metered(part: number, text: string): Element {
  const mood: Mood = part >= 0.95 ? 'critical' : part >= 0.8 ? 'warning' : 'idle';
  return markup`<span class="metered">${bar(part, mood)}<span>${text}</span></span>`;
}

export interface Column {
  readonly name: string;
  /** `number`: aligned to the right. */
  readonly className?: string;
}

/**
 * A table that stays a table on narrow screens, or whose rows become blocks in which each value carries its
 * column's name. The roles keep its semantics, which the style sheet would remove.
 * @param rows the first cell of each is its heading.
 */
export function table(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly Child[])[],
  narrow: 'stays' | 'stacks' = 'stays',
): Element {
  const className = (i: number) => columns[i]?.className;
  const head = ({ name }: Column, i: number) =>
    markup`<th role="columnheader" scope="col" class=${className(i)}>${name}</th>`;
  const cell = (value: Child, i: number) =>
    i === 0
      ? markup`<th role="rowheader" scope="row" class=${className(i)}>${value}</th>`
      : markup`<td role="cell" class=${className(i)} data-column=${columns[i]?.name}>${value}</td>`;
  return markup`
    <table role="table" class=${narrow}>
      <caption>${caption}</caption>
      <thead role="rowgroup"><tr role="row">${columns.map(head)}</tr></thead>
      <tbody role="rowgroup">${rows.map((cells) => markup`<tr role="row">${cells.map(cell)}</tr>`)}</tbody>
    </table>
  `;
}
