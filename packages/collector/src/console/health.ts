/** Whether events are taken, and how full the queue to the disk is. */
import { h, type Child, type Element } from './element.js';
import { bytes, count, percent } from './format.js';
import { bar, card, chip, facts, type Mood, type View } from './view.js';

/** In the words of who is asked; a check that is not among them is told by its name. */
const NAMES: Readonly<Record<string, string>> = {
  startup: 'start',
  shutdown: 'no shutdown',
  ledger_thread: 'ledger’s thread',
  storage: 'storage',
};

export function health({ state: { health: found, queue, ledger } }: View): Element {
  const full = Math.max(queue.events / queue.max_events, queue.bytes / queue.max_bytes);
  const failed = found.checks.filter(({ ok }) => !ok);
  const passed = found.checks.filter(({ ok }) => ok).map(({ name }) => NAMES[name] ?? name);
  return card(
    'health',
    'Health',
    found.ready ? 'ready' : found.live ? 'not ready' : 'needs a restart',
    failed.length > 0 &&
      h(
        'ul',
        { class: 'checks' },
        failed.map(({ name, reason }) =>
          h(
            'li',
            {},
            h('span', {}, NAMES[name] ?? name, reason !== null && h('span', { class: 'more' }, reason)),
            chip('critical', 'fails'),
          ),
        ),
      ),
    facts([
      ...(passed.length === 0
        ? []
        : [
            {
              name: 'Checks',
              value: chip('good', failed.length === 0 ? 'all pass' : `${passed.length} pass`),
              more: passed.join(', '),
            },
          ]),
      { name: 'Ledger', value: ledgerChip(ledger.state) },
      {
        name: 'Queue',
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
