/** What was answered since the start: accepted by kind, refused by reason. */
import type { Key } from './console-state.js';
import {
  type Child,
  type Element,
  type Fact,
  type Mood,
  type View,
  bar,
  card,
  chip,
  facts,
  h,
  table,
  takenAt,
} from './elements.js';
import { ago, bytes, count, counted, day, duration, percent } from './format.js';
import { metered } from './overview.js';
import { expiry } from './proof.js';

/** Whether nothing was answered since the start. */
export function isUnasked({ state: { totals, otlp } }: View): boolean {
  const ignored = otlp?.items.flatMap((items) => Object.entries(items.ignored)) ?? [];
  return (
    total(Object.entries(totals.accepted)) + total(ignored) === 0 && Object.keys(totals.refused).length === 0
  );
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

/** What came of spans and log records; undefined where OTLP is not taken. */
export function openTelemetry({ state: { otlp } }: View): Element | undefined {
  if (otlp === null) return undefined;
  const counts = new Map<string, number>();
  const add = (name: string, more: number) => counts.set(name, (counts.get(name) ?? 0) + more);
  for (const { signal, stored, ignored, rejected } of otlp.items) {
    add(signal === 'traces' ? 'spans stored' : 'log records stored', stored);
    for (const [reason, number] of Object.entries(ignored)) add(`ignored: ${reason}`, number);
    for (const [code, number] of Object.entries(rejected)) add(`rejected: ${code}`, number);
  }
  const lines = [...counts];
  const all = total(lines);
  return card(
    'otlp',
    'OpenTelemetry',
    `${count(all)} since the start`,
    table('Spans and log records since the start', columns('What became of them'), rows(lines, all)),
    otlp.shortened > 0 &&
      h('p', { class: 'more' }, `${counted(otlp.shortened, 'event')} stored without the longest contents.`),
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

/* The API keys: who sends, and until when. A key is told by its id, which is not secret. */

const MOODS: Readonly<Record<Key['state'], Mood>> = { usable: 'good', expired: 'warning', revoked: 'idle' };

export function keys(view: View): Element {
  const { keys: list, keys_not_listed: others } = view.state;
  const now = takenAt(view);
  const usable = list.filter(({ state }) => state === 'usable').length;
  return card(
    'keys',
    'API keys',
    `${count(usable)} usable of ${count(list.length + others)}; use since the start`,
    list.length === 0
      ? h(
          'p',
          { class: 'empty' },
          `There is no key, so no one can send: ${view.state.command} keys create makes one.`,
        )
      : h(
          'div',
          { class: 'scroll', tabindex: 0, role: 'group', 'aria-labelledby': 'keys-heading' },
          table(
            'API keys: their use since the start, and when they expire',
            [
              { name: 'Key', className: 'key' },
              { name: 'Organisation', className: 'name' },
              { name: 'Note', className: 'name' },
              { name: 'State', className: 'state' },
              { name: 'Last used', className: 'number' },
              { name: 'Requests', className: 'number' },
              { name: 'Over its rate', className: 'number' },
              { name: 'Expires', className: 'date' },
            ],
            list.map((key) => row(key, now)),
            'stacks',
          ),
        ),
    others > 0 &&
      h(
        'p',
        { class: 'more' },
        `${counted(others, 'key')} not listed: ${view.state.command} keys list shows all.`,
      ),
  );
}

/** One that was replaced and still comes is a sender that does not know yet. */
function stateOf({ state, replaced_by: by, in_use }: Key): Child {
  if (state !== 'usable' || by === null) return chip(MOODS[state], state);
  return [
    in_use ? chip('warning', 'replaced, in use') : chip('idle', 'replaced'),
    h('span', { class: 'more' }, 'by ', h('code', {}, by)),
  ];
}

function row(key: Key, now: number): Child[] {
  const { key_id, organisation, note, state, expires_at: expires, last_used_at: used } = key;
  return [
    h('code', {}, key_id),
    // Anyone who wrote it may have written it from right to left.
    h('bdi', {}, organisation),
    note === '' ? '' : h('bdi', { title: note }, note),
    stateOf(key),
    used === null ? 'not yet' : ago(Date.parse(used), now),
    count(key.requests),
    key.over_rate === 0 ? h('span', { class: 'zero' }, '0') : h('strong', {}, count(key.over_rate)),
    expires === null ? 'never' : state === 'usable' ? expiry(expires, now) : day(expires),
  ];
}

/* How complete the runs of 30 days are, in the words of the report. */

/** It is always a moment behind; worth a word is more than has come in so many seconds. */
const BEHIND_SECONDS = 10;

export function runs({ state: { runs: found, traffic, database } }: View): Element {
  if (found === null) {
    return card(
      'runs',
      'Runs by completeness',
      '',
      h(
        'p',
        { class: 'empty' },
        database === null
          ? 'Not counted yet. It begins when the ledger is open.'
          : 'Not counted here: the log is in a database. Ask a mirror of it, by collector runs.',
      ),
    );
  }
  const all = found.full + found.minimum + found.incomplete + found.retired;
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
    ...(found.retired > 0 ? [['retired', found.retired] as const] : []),
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

/* The ledger, how it grows, and what is left of the disk. */

const WATCHED_SECONDS = 600;

export function storage(view: View): Element {
  const { index } = view.state;
  return card(
    'storage',
    'Ledger and disk',
    '',
    facts([
      growth(view),
      disk(view),
      ...(index === null
        ? []
        : [
            {
              name: 'Id index',
              value: `${count(index.entries)} entries`,
              ...(index.unwritten_tables > 0 && {
                more: `${counted(index.unwritten_tables, 'table')} not yet written`,
              }),
            },
          ]),
    ]),
  );
}

/** Also why there is no forecast for the disk, which is at the top once there is one. */
function growth({ state: { ledger } }: View): Fact {
  const { events_per_hour: events, bytes_per_hour: size, watched_seconds: watched } = ledger;
  const name = 'Growth';
  if (events === null || size === null) {
    const left = duration(Math.max(1, WATCHED_SECONDS - watched) * 1000);
    return { name, value: `available in ${left}`, more: 'once ten minutes were watched' };
  }
  return {
    name,
    value: `${count(events)} events an hour`,
    more: `${bytes(size)} an hour, over the last ${duration(watched * 1000)}; what else fills the disk is not foreseen`,
  };
}

function disk({ state: { disk: space } }: View): Fact {
  const { free_bytes: free, total_bytes: all } = space;
  const name = 'Disk';
  if (free === null || all === null) return { name, value: 'has not answered' };
  const used = all === 0 ? 1 : 1 - free / all;
  return {
    name,
    value: metered(used, `${percent(used)} used`),
    more: `${bytes(free)} free of ${bytes(all)}`,
  };
}
