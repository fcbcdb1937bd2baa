/** Checkpoints on their way off the host, the last verification, and certificates. */
import type { Sink } from './console-state.js';
import { h, type Child, type Element } from './element.js';
import { ago, count, counted, day, days, duration, NONE } from './format.js';
import { card, chip, facts, table, takenAt, type Mood, type View } from './view.js';

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;

export function proof(view: View): Element {
  const { sinks } = view.state;
  return card(
    'proof',
    'Checkpoints and proof',
    '',
    facts([newest(view), verify(view)]),
    sinks.length === 0
      ? h(
          'p',
          { class: 'empty' },
          'No sink: checkpoints stay on this host, where its owner can rewrite them.',
        )
      : table(
          'Sinks: where checkpoints are sent',
          [
            { name: 'Sink' },
            { name: 'State' },
            { name: 'Newest checkpoint', className: 'number' },
            { name: 'Waiting', className: 'number' },
            { name: 'Dropped', className: 'number' },
          ],
          sinks.map((sink) => sinkRow(sink, takenAt(view))),
          'stacks',
        ),
    certificates(view),
  );
}

function newest(view: View) {
  const { checkpoint, checkpoints_fail_since: failing } = view.state;
  const trouble =
    failing !== null &&
    chip('warning', `none can be made for ${duration(takenAt(view) - Date.parse(failing))}`);
  return {
    name: 'Newest',
    value:
      checkpoint === null
        ? ['none yet ', trouble]
        : [ago(Date.parse(checkpoint.at), takenAt(view)), ' ', trouble],
    ...(checkpoint !== null && {
      more: `${counted(checkpoint.events, 'event')} covered, ${count(checkpoint.events_behind)} since`,
    }),
  };
}

function verify(view: View) {
  const { last_verify: found } = view.state;
  const name = 'Last verified';
  if (found === null) return { name, value: 'not known', more: 'collector verify --note tells of it here' };
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

const MOODS: Readonly<Record<Sink['state'], Mood>> = {
  ok: 'good',
  untried: 'idle',
  failing: 'warning',
  forked: 'critical',
};

function sinkRow(sink: Sink, now: number): Child[] {
  const { number, kind, state, events, at, failing_since: failing, waiting, dropped } = sink;
  return [
    `${number} ${kind}`,
    [
      chip(MOODS[state], state === 'untried' ? 'not tried yet' : state),
      failing !== null && h('span', { class: 'more' }, `for ${duration(now - Date.parse(failing))}`),
    ],
    at === null || events === null
      ? NONE
      : [ago(Date.parse(at), now), h('span', { class: 'more' }, counted(events, 'event'))],
    count(waiting),
    count(dropped),
  ];
}

function certificates(view: View): Child {
  const list = view.state.certificates;
  if (list.length === 0) return false;
  return table(
    'Certificates that the collector presents',
    [{ name: 'Certificate' }, { name: 'Valid until' }],
    list.map(({ name, not_after }) => [name, expiry(not_after, takenAt(view))]),
  );
}

/** The day, and how long until then when that is soon. */
export function expiry(instant: string, now: number): Child {
  const left = (Date.parse(instant) - now) / DAY_MS;
  if (left <= 0) return [day(instant), ' ', chip('warning', 'over')];
  return left <= SOON_DAYS ? [day(instant), ' ', chip('warning', `in ${days(left)}`)] : day(instant);
}
