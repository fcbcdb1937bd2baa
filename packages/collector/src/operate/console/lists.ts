/** The tables of checkpoint sinks and of API keys. */
import type { Key, Sink } from './console-state.js';
import { ago, count, counted, day, duration, NONE } from './format.js';
import { card, type Child, chip, markup, type Mood, small, table, takenAt, type View } from './markup.js';
import { expiry } from './states.js';

const SINK_MOODS: Readonly<Record<Sink['state'], Mood>> = {
  ok: 'good',
  untried: 'idle',
  failing: 'warning',
  forked: 'critical',
};

/** The table of sinks; empty without a sink, which the facts mention. */
export function sinks(view: View): Child {
  const { sinks: list } = view.state;
  if (list.length === 0) return false;
  const columns = [
    { name: 'Sink' },
    { name: 'State', className: 'state' },
    { name: 'Newest checkpoint', className: 'number' },
    { name: 'Waiting', className: 'number' },
    { name: 'Dropped', className: 'number' },
  ];
  const rows = list.map((sink) => sinkRow(sink, takenAt(view)));
  return card(
    'sinks',
    'Checkpoint sinks',
    'copies of checkpoints on other hosts',
    table('Sinks: where checkpoints are sent', columns, rows, 'stacks'),
  );
}

function sinkRow(sink: Sink, now: number): Child[] {
  const { number, kind, state, entries, at, failing_since: failing, waiting, dropped } = sink;
  return [
    `${number} ${kind}`,
    [
      chip(SINK_MOODS[state], state === 'untried' ? 'not tried yet' : state),
      failing !== null && small(`for ${duration(now - Date.parse(failing))}`),
    ],
    at === null || entries === null
      ? NONE
      : [ago(Date.parse(at), now), small(counted(entries, 'entry', 'entries'))],
    count(waiting),
    count(dropped),
  ];
}

const KEY_MOODS: Readonly<Record<Key['state'], Mood>> = {
  usable: 'good',
  expired: 'warning',
  revoked: 'idle',
};
const KEY_COLUMNS = [
  { name: 'Key' },
  { name: 'Organisation', className: 'name' },
  { name: 'Note', className: 'name' },
  { name: 'State', className: 'state' },
  { name: 'Last used', className: 'number' },
  { name: 'Requests', className: 'number' },
  { name: 'Over its rate', className: 'number' },
  { name: 'Expires', className: 'date' },
];

/** The table of senders and the expiry of their keys. A key id is not secret. */
export function keys(view: View): Child {
  const { keys: list, keys_not_listed: others, command } = view.state;
  const usable = list.filter(({ state }) => state === 'usable').length;
  const caption = 'API keys: their use since the start, and when they expire';
  const rows = list.map((key) => keyRow(key, takenAt(view)));
  return card(
    'keys',
    'API keys',
    `${count(usable)} usable of ${count(list.length + others)}; use since the start`,
    list.length === 0
      ? markup`<p class="empty">No keys, so nothing can be sent: ${command} keys create makes one.</p>`
      : markup`
          <div class="scroll" tabindex="0" role="group" aria-labelledby="keys-heading">
            ${table(caption, KEY_COLUMNS, rows, 'stacks')}
          </div>
        `,
    others > 0 &&
      markup`<p class="more">${counted(others, 'key')} not listed: ${command} keys list shows all.</p>`,
  );
}

function keyRow(key: Key, now: number): Child[] {
  const { key_id, organisation, note, state, expires_at: expires, last_used_at: used } = key;
  return [
    markup`<code>${key_id}</code>`,
    // Either text may be written from right to left.
    markup`<bdi>${organisation}</bdi>`,
    note !== '' && markup`<bdi title=${note}>${note}</bdi>`,
    keyState(key),
    used === null ? 'not yet' : ago(Date.parse(used), now),
    count(key.requests),
    key.over_rate === 0
      ? markup`<span class="zero">0</span>`
      : markup`<strong>${count(key.over_rate)}</strong>`,
    expires === null ? 'never' : state === 'usable' ? expiry(expires, now) : day(expires),
  ];
}

/** A replaced key in use means a sender that does not have the new key yet. */
function keyState({ state, replaced_by: by, in_use }: Key): Child {
  if (state !== 'usable' || by === null) return chip(KEY_MOODS[state], state);
  return [
    in_use ? chip('warning', 'replaced, in use') : chip('idle', 'replaced'),
    small(['by ', markup`<code>${by}</code>`]),
  ];
}
