/** How complete the runs of 30 days are, in the words of the report. */
import { h, type Child, type Element } from './element.js';
import { count, counted, day, percent } from './format.js';
import { bar, card, facts, table, type View } from './view.js';

/** It is always a moment behind; worth a word is more than has come in so many seconds. */
const BEHIND_SECONDS = 10;

export function runs({ state: { runs: found, traffic } }: View): Element {
  if (found === null) {
    return card(
      'runs',
      'Runs by completeness',
      '',
      h('p', { class: 'empty' }, 'Not counted yet. It begins when the ledger is open.'),
    );
  }
  const all = found.full + found.minimum + found.incomplete;
  if (all === 0 && found.orphan_events === 0) {
    return card(
      'runs',
      'Runs by completeness',
      '',
      h(
        'p',
        { class: 'empty' },
        `No run has begun since ${day(found.since)}. Each is counted here as full, minimum or incomplete, by what came of it so far.`,
      ),
    );
  }
  const levels = [
    ['full', found.full],
    ['minimum', found.minimum],
    ['incomplete', found.incomplete],
  ] as const;
  return card(
    'runs',
    'Runs by completeness',
    `${count(all)} began since ${day(found.since)}`,
    table(
      `Runs that began since ${day(found.since)}, by how complete they are so far`,
      [{ name: 'Runs' }, { name: 'Count', className: 'number' }, { name: 'Share', className: 'share' }],
      [...levels, ['no outcome yet', found.without_outcome] as const].map(([name, number]): Child[] => {
        const part = all === 0 ? 0 : number / all;
        return [name, count(number), [bar(part), h('span', {}, percent(part))]];
      }),
    ),
    facts([
      {
        name: 'Orphan events',
        value: count(found.orphan_events),
        more: 'their start or their parent is missing',
      },
    ]),
    found.events_behind > BEHIND_SECONDS * traffic.accepted_per_second &&
      h('p', { class: 'more' }, `${counted(found.events_behind, 'event')} still to be looked at.`),
  );
}
