/** Warnings with instructions, the most severe first, and hints about missing settings. */
import type { Hint, Warning } from './console-state.js';
import { count, counted } from './format.js';
import { type Child, chip, type Element, markup, type View } from './markup.js';

/**
 * Maximum number of warnings of a kind that are shown separately; two hundred expiring keys are one task.
 */
const SHOWN = 2;

/** Empty when there are no warnings: the status at the top says so. */
export function attention({ state: { warnings } }: View): Child {
  if (warnings.length === 0) return false;
  const groups = Map.groupBy(warnings, ({ severity, id }) => `${severity}-${id}`);
  return markup`
    <section id="attention" aria-labelledby="attention-heading">
      <h2 id="attention-heading" class="hidden">What needs attention</h2>
      <ul class="alerts">${[...groups].map(([key, list]) => group(key, list))}</ul>
    </section>
  `;
}

function group(key: string, warnings: readonly Warning[]): Element {
  const severity = warnings[0]?.severity ?? 'warning';
  const shown = warnings.length <= SHOWN + 1 ? warnings : warnings.slice(0, SHOWN);
  const others = warnings.slice(shown.length);
  return markup`
    <li key=${key} class=${`alert ${severity}`}>
      ${chip(severity, severity === 'critical' ? 'Critical' : 'Warning')}
      <div class="items">
        ${shown.map(item)}
        ${
          others.length > 0 &&
          markup`
            <details>
              <summary>${count(others.length)} more of the same kind</summary>
              <div class="items">${others.map(item)}</div>
            </details>
          `
        }
      </div>
    </li>
  `;
}

/** The hints about missing settings. A reader who does not want these settings can collapse them. */
export function hints({ state: { hints: list } }: View): Child {
  if (list.length === 0) return false;
  return markup`
    <section id="hints" aria-labelledby="hints-heading">
      <h2 id="hints-heading" class="hidden">What is not set up yet</h2>
      <details class="hints" open>
        <summary>${counted(list.length, 'thing')} not set up yet</summary>
        <ul>${list.map((hint) => markup`<li>${item(hint)}</li>`)}</ul>
      </details>
    </section>
  `;
}

function item({ title, what_to_do }: Hint): Element {
  return markup`<div><h3>${title}</h3><p>${what_to_do}</p></div>`;
}

/** `2 critical, 1 warning`, or nothing. */
export function summary(warnings: readonly Warning[]): string {
  const critical = warnings.filter(({ severity }) => severity === 'critical').length;
  const others = warnings.length - critical;
  return [critical > 0 && `${critical} critical`, others > 0 && counted(others, 'warning')]
    .filter((part) => part !== false)
    .join(', ');
}
