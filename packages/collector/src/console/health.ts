/** Whether events are taken, and how full the queue to the disk is. */
import { h, type Child, type Element } from './element.js';
import { bytes, count, percent } from './format.js';
import { bar, card, chip, facts, type Mood, type View } from './view.js';

/** In the words of who is asked; a check that is not among them is told by its name. */
const NAMES: Readonly<Record<string, string>> = {
  startup: 'Started',
  shutdown: 'Not stopping',
  ledger_thread: 'Ledger’s thread answers',
  storage: 'Storage takes events',
};

export function health({ state: { health: found, queue, ledger } }: View): Element {
  const full = Math.max(queue.events / queue.max_events, queue.bytes / queue.max_bytes);
  return card(
    'health',
    'Health',
    found.ready ? 'ready' : found.live ? 'not ready' : 'should be started anew',
    h(
      'ul',
      { class: 'checks' },
      found.checks.map(({ name, ok, reason }) =>
        h(
          'li',
          {},
          h('span', {}, NAMES[name] ?? name, reason !== null && h('span', { class: 'more' }, reason)),
          chip(ok ? 'good' : 'critical', ok ? 'ok' : 'fails'),
        ),
      ),
    ),
    facts([
      { name: 'Ledger', value: ledgerChip(ledger.state) },
      {
        name: 'Queue to the disk',
        value: metered(full, percent(Math.floor(full * 100) / 100)),
        more: `${count(queue.events)} of ${count(queue.max_events)} events, ${bytes(queue.bytes)} of ${bytes(queue.max_bytes)}`,
      },
    ]),
  );
}

/** A bar with its number. */
export function metered(part: number, text: string): Child {
  const mood: Mood = part >= 0.95 ? 'critical' : part >= 0.8 ? 'warning' : 'idle';
  return h('span', { class: 'metered' }, bar(part, mood), h('span', {}, text));
}

function ledgerChip(state: 'open' | 'refusing' | 'failed'): Element {
  return state === 'open' ? chip('good', 'open') : chip('critical', state);
}
