/** The API keys: who sends, and until when. A key is told by its id, which is not secret. */
import type { Key } from './console-state.js';
import { h, type Child, type Element } from './element.js';
import { ago, count, counted, day } from './format.js';
import { expiry } from './proof.js';
import { card, chip, table, takenAt, type Mood, type View } from './view.js';

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
          `There is no key, so nobody can send: ${view.state.command} keys create makes one.`,
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
    // Whoever wrote it may have written it from right to left.
    h('bdi', {}, organisation),
    note === '' ? '' : h('bdi', { title: note }, note),
    stateOf(key),
    used === null ? 'not yet' : ago(Date.parse(used), now),
    count(key.requests),
    key.over_rate === 0 ? h('span', { class: 'zero' }, '0') : h('strong', {}, count(key.over_rate)),
    expires === null ? 'never' : state === 'usable' ? expiry(expires, now) : day(expires),
  ];
}
