/** Values of events as HTML: nothing that was sent is left out, and no value is markup. */
import { type Html, html, NOTHING } from '@clinical-events/report/html';
import { block, inline, isShort, marked } from './text.js';

export type Members = readonly (readonly [name: string, value: unknown])[];

/** Larger and deeper values are shown as JSON text. */
const MOST_VALUES = 100;
const MOST_DEPTH = 4;
/** Deeper values are not indented, which would multiply their size. */
const MOST_INDENTED = 30;

/** Members under the names that the sender gave them. */
export function membersHtml(members: Members): Html {
  if (members.length === 0) return NOTHING;
  return html`<dl class="members">
    ${members.map(
      ([name, value]) =>
        html`<div>
          <dt>${nameHtml(name)}</dt>
          <dd>${valueHtml(value)}</dd>
        </div>`,
    )}
  </dl>`;
}

function nameHtml(name: string): Html {
  return name === '' ? html`<em>(no name)</em>` : inline(name);
}

function valueHtml(value: unknown): Html {
  if (isCompound(value)) {
    const { values, depth } = sizeOf(value);
    if (values > MOST_VALUES || depth > MOST_DEPTH) return block(jsonText(value, depth), 'code');
    return compoundHtml(value);
  }
  return scalarHtml(value);
}

type Compound = readonly unknown[] | Readonly<Record<string, unknown>>;

function isCompound(value: unknown): value is Compound {
  return typeof value === 'object' && value !== null && !JSON.isRawJSON(value);
}

function compoundHtml(value: Compound): Html {
  if (!Array.isArray(value)) {
    const members = Object.entries(value);
    return members.length === 0 ? html`<em>(an empty object)</em>` : membersHtml(members);
  }
  if (value.length === 0) return html`<em>(an empty list)</em>`;
  return html`<ol class="items">
    ${value.map((item) => html`<li>${isCompound(item) ? compoundHtml(item) : scalarHtml(item)}</li>`)}
  </ol>`;
}

function scalarHtml(value: unknown): Html {
  if (typeof value === 'string') {
    if (value === '') return html`<em>(an empty text)</em>`;
    return isShort(value) ? inline(value) : block(value);
  }
  // Numbers with every digit that was sent.
  return html`<code>${marked(JSON.stringify(value))}</code>`;
}

/** Without recursion: a value may be nested thousands of times. */
function sizeOf(value: Compound): { values: number; depth: number } {
  let [values, depth] = [0, 0];
  for (let level: Compound[] = [value]; level.length > 0; depth++) {
    const next: Compound[] = [];
    for (const each of level)
      for (const inner of Object.values(each)) {
        values++;
        if (isCompound(inner)) next.push(inner);
      }
    level = next;
  }
  return { values, depth };
}

function jsonText(value: Compound, depth: number): string {
  return JSON.stringify(value, undefined, depth > MOST_INDENTED ? undefined : 2);
}
