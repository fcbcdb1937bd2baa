/** What was answered since the start: accepted by kind, refused by reason. */
import { h, type Child, type Element } from './element.js';
import { count, counted, percent } from './format.js';
import { bar, card, table, type View } from './view.js';

/** Whether nothing was answered since the start. */
export function isUnasked({ state: { totals } }: View): boolean {
  return total(Object.entries(totals.accepted)) === 0 && Object.keys(totals.refused).length === 0;
}

/** In place of the two cards below. */
export function unasked(): Element {
  return card(
    'accepted',
    'Accepted and refused',
    'since the start',
    h('p', { class: 'empty' }, 'Nothing yet. Events are counted here by kind, refusals by error code.'),
  );
}

export function acceptedByKind({ state: { totals } }: View): Element {
  const counts = Object.entries(totals.accepted);
  const all = total(counts);
  return card(
    'accepted',
    'Accepted by kind',
    `${count(all)} since the start`,
    table('Events accepted since the start, by kind', columns('Kind'), rows(counts, all)),
    totals.repeats > 0 &&
      h('p', { class: 'more' }, `Among them ${counted(totals.repeats, 'repeat')} of what was stored before.`),
  );
}

export function refusedByReason({ state: { totals } }: View): Element {
  const counts = Object.entries(totals.refused).sort(([, a], [, b]) => b - a);
  const all = total(counts);
  return card(
    'refused',
    'Refused by reason',
    all === 0 ? 'since the start' : `${count(all)} since the start`,
    counts.length === 0
      ? h('p', { class: 'empty' }, 'Nothing was refused. What is gets counted here by its error code.')
      : table('Requests refused since the start, by error code', columns('Error code'), rows(counts, all)),
  );
}

function columns(first: string): { name: string; className?: string }[] {
  return [{ name: first }, { name: 'Count', className: 'number' }, { name: 'Share', className: 'share' }];
}

function rows(counts: readonly (readonly [string, number])[], all: number): Child[][] {
  return counts.map(([name, number]) => {
    const part = all === 0 ? 0 : number / all;
    return [h('code', {}, name), count(number), [bar(part), h('span', {}, percent(part))]];
  });
}

function total(counts: readonly (readonly [string, number])[]): number {
  return counts.reduce((sum, [, number]) => sum + number, 0);
}
