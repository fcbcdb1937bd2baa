/** What shows later that the log is whole: checkpoints, verification, back-ups; and certificates. */
import type { Sink } from './console-state.js';
import { h, type Child, type Element } from './element.js';
import { ago, count, counted, day, days, duration, NONE } from './format.js';
import { card, chip, facts, table, takenAt, type Fact, type Mood, type View } from './view.js';

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;

export function proof(view: View): Element {
  return card(
    'proof',
    'Proof and back-up',
    '',
    facts([newest(view), ...noSink(view), verify(view), backup(view), ...certificates(view)]),
  );
}

function newest(view: View): Fact {
  const { checkpoint, checkpoints_fail_since: failing } = view.state;
  const trouble =
    failing !== null &&
    chip('warning', `none can be made for ${duration(takenAt(view) - Date.parse(failing))}`);
  return {
    name: 'Checkpoint',
    value:
      checkpoint === null
        ? ['none yet ', trouble]
        : [ago(Date.parse(checkpoint.at), takenAt(view)), ' ', trouble],
    ...(checkpoint !== null && {
      more:
        checkpoint.entries === 0 && checkpoint.entries_behind === 0
          ? 'of the empty log'
          : `${counted(checkpoint.entries, 'entry', 'entries')}, ${count(checkpoint.entries_behind)} since`,
    }),
  };
}

function noSink({ state: { sinks: list } }: View): Fact[] {
  return list.length === 0 ? [{ name: 'Sinks', value: 'none', more: 'checkpoints stay on this host' }] : [];
}

function verify(view: View): Fact {
  const { last_verify: found } = view.state;
  const name = 'Last verified';
  if (found === null)
    return { name, value: 'never', more: ['by ', command(`${view.state.command} verify --note`)] };
  return {
    name,
    value: [
      ago(Date.parse(found.at), takenAt(view)),
      ' ',
      chip(found.intact ? 'good' : 'critical', found.intact ? 'intact' : 'not intact'),
    ],
    more: counted(found.events, 'event'),
  };
}

function backup(view: View): Fact {
  const { last_backup: last } = view.state;
  const name = 'Last back-up';
  if (last === null) return { name, value: 'never', more: ['by ', command(`${view.state.command} backup`)] };
  return {
    name,
    value: ago(Date.parse(last.at), takenAt(view)),
    more: `${counted(last.events, 'event')}, ${count(last.events_since)} since`,
  };
}

function command(text: string): Element {
  return h('code', {}, text);
}

function certificates(view: View): Fact[] {
  return view.state.certificates.map(({ name, not_after }) => ({
    name: 'Certificate',
    value: ['until ', expiry(not_after, takenAt(view))],
    more: name,
  }));
}

const MOODS: Readonly<Record<Sink['state'], Mood>> = {
  ok: 'good',
  untried: 'idle',
  failing: 'warning',
  forked: 'critical',
};

/** Nothing where there is none: the facts say so. */
export function sinks(view: View): Child {
  const { sinks: list } = view.state;
  if (list.length === 0) return false;
  return card(
    'sinks',
    'Checkpoint sinks',
    'where checkpoints leave this host',
    table(
      'Sinks: where checkpoints are sent',
      [
        { name: 'Sink' },
        { name: 'State', className: 'state' },
        { name: 'Newest checkpoint', className: 'number' },
        { name: 'Waiting', className: 'number' },
        { name: 'Dropped', className: 'number' },
      ],
      list.map((sink) => sinkRow(sink, takenAt(view))),
      'stacks',
    ),
  );
}

function sinkRow(sink: Sink, now: number): Child[] {
  const { number, kind, state, entries, at, failing_since: failing, waiting, dropped } = sink;
  return [
    `${number} ${kind}`,
    [
      chip(MOODS[state], state === 'untried' ? 'not tried yet' : state),
      failing !== null && h('span', { class: 'more' }, `for ${duration(now - Date.parse(failing))}`),
    ],
    at === null || entries === null
      ? NONE
      : [ago(Date.parse(at), now), h('span', { class: 'more' }, counted(entries, 'entry', 'entries'))],
    count(waiting),
    count(dropped),
  ];
}

/** The day, and how long until then when that is soon. */
export function expiry(instant: string, now: number): Child {
  const left = (Date.parse(instant) - now) / DAY_MS;
  if (left <= 0) return [day(instant), ' ', chip('warning', 'over')];
  return left <= SOON_DAYS ? [day(instant), ' ', chip('warning', `in ${days(left)}`)] : day(instant);
}
