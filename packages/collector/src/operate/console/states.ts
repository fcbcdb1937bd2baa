/** The cards of names and values: health, ledger and disk, proof and back-up. */
import type { Cell } from './console-state.js';
import { ago, bytes, count, counted, day, days, duration, milliseconds, percent } from './format.js';
import {
  card,
  type Child,
  chip,
  type Fact,
  facts,
  markup,
  metered,
  small,
  takenAt,
  type View,
} from './markup.js';

/** The declared numbers of a card. */
export function cellsOf(view: View, card: Cell['card']): Fact[] {
  return view.state.cells
    .filter((cell) => cell.card === card)
    .map((cell) => ({
      name: cell.label,
      value: cell.warns ? chip('warning', textOf(cell, view)) : textOf(cell, view),
      ...(cell.more !== undefined && { more: cell.more }),
    }));
}

function textOf({ value, format, noun }: Cell, view: View): string {
  if (format === 'instant') return ago(value * 1000, takenAt(view));
  if (format === 'bytes') return bytes(value);
  return noun === undefined ? count(value) : counted(value, ...noun);
}

/** An operator's words; a check without an entry is shown by its name. */
const CHECKS: Readonly<Record<string, string>> = {
  http_thread: 'HTTP thread',
  startup: 'start',
  shutdown: 'no shutdown',
  listener: 'listener for events',
  ledger_thread: 'ledger’s thread',
};

export function health(view: View): Child {
  const { health: found, queue, ledger } = view.state;
  const full = Math.max(queue.events / queue.max_events, queue.bytes / queue.max_bytes);
  const failed = found.checks.filter(({ ok }) => !ok);
  const passed = found.checks.filter(({ ok }) => ok).map(({ name }) => CHECKS[name] ?? name);
  const checks: Fact = {
    name: 'Checks',
    value: chip('good', failed.length === 0 ? 'all pass' : `${passed.length} pass`),
    more: passed.join(', '),
  };
  const state = found.ready ? 'ready' : found.live ? 'not ready' : 'needs a restart';
  return card(
    'health',
    'Health',
    state,
    failed.length > 0 && markup`<ul class="checks">${failed.map(failedCheck)}</ul>`,
    facts([
      ...(passed.length === 0 ? [] : [checks]),
      { name: 'Ledger', value: chip(ledger.state === 'open' ? 'good' : 'critical', ledger.state) },
      {
        name: 'Queue',
        value: metered(full, percent(Math.floor(full * 100) / 100)),
        more:
          `${count(queue.events)} of ${count(queue.max_events)} events, ${bytes(queue.bytes)} of ` +
          bytes(queue.max_bytes),
      },
      ...cellsOf(view, 'health'),
    ]),
  );
}

function failedCheck({ name, reason }: View['state']['health']['checks'][number]): Child {
  return markup`
    <li>
      <span>${CHECKS[name] ?? name}${reason !== null && small(reason)}</span>
      ${chip('critical', 'fails')}
    </li>
  `;
}

const WATCHED_SECONDS = 600;

export function storage(view: View): Child {
  return card(
    'storage',
    'Ledger and disk',
    '',
    facts([growth(view), disk(view), ...cellsOf(view, 'storage')]),
  );
}

/**
 * The growth of the ledger, which also explains why there is no disk forecast. The overview shows a known
 * one.
 */
function growth({ state: { ledger } }: View): Fact {
  const { events_per_hour: events, bytes_per_hour: size, watched_seconds: watched } = ledger;
  const name = 'Growth';
  if (events === null || size === null) {
    const left = duration(Math.max(1, WATCHED_SECONDS - watched) * 1000);
    return { name, value: `available in ${left}`, more: 'after ten minutes of observation' };
  }
  return {
    name,
    value: `${count(events)} events an hour`,
    more: `${bytes(size)} an hour, over the last ${duration(watched * 1000)}; other files are not considered`,
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

/** The means of proving later that the log is intact. */
export function proof(view: View): Child {
  const { sinks, database, privacy, certificates } = view.state;
  return card(
    'proof',
    'Proof and back-up',
    '',
    facts([
      checkpoint(view),
      ...(sinks.length === 0
        ? [{ name: 'Sinks', value: 'none', more: 'checkpoints stay on this host' }]
        : []),
      // A log in a database is verified on its mirror, and backed up with the database's tools.
      ...(database === null ? [verify(view), backup(view)] : [mergeDelay(database.merge_delay_p99_ms)]),
      {
        name: 'Payload keys',
        value:
          privacy === null
            ? 'payloads not encrypted'
            : database === null
              ? counted(privacy.directories, 'directory', 'directories')
              : 'in a separate database',
      },
      ...cellsOf(view, 'proof'),
      ...certificates.map(({ name, not_after: until }) => ({
        name: 'Certificate',
        value: ['until ', expiry(until, takenAt(view))],
        more: name,
      })),
    ]),
  );
}

function checkpoint(view: View): Fact {
  const { checkpoint: newest, checkpoints_fail_since: failing } = view.state;
  const trouble =
    failing !== null &&
    chip('warning', `none can be made for ${duration(takenAt(view) - Date.parse(failing))}`);
  if (newest === null) return { name: 'Checkpoint', value: ['none yet ', trouble] };
  return {
    name: 'Checkpoint',
    value: [ago(Date.parse(newest.at), takenAt(view)), ' ', trouble],
    more:
      newest.entries === 0 && newest.entries_behind === 0
        ? 'of the empty log'
        : `${counted(newest.entries, 'entry', 'entries')}, ${count(newest.entries_behind)} since`,
  };
}

function mergeDelay(p99: number | null): Fact {
  const value = p99 === null ? 'not known yet' : `p99 ${milliseconds(p99)}`;
  return { name: 'Merge delay', value, more: 'from commit to checkpoint' };
}

function verify(view: View): Fact {
  const { last_verify: found, command } = view.state;
  const name = 'Last verified';
  if (found === null)
    return { name, value: 'never', more: ['by ', markup`<code>${command} verify --note</code>`] };
  const verdict = chip(found.intact ? 'good' : 'critical', found.intact ? 'intact' : 'not intact');
  return {
    name,
    value: [ago(Date.parse(found.at), takenAt(view)), ' ', verdict],
    more: counted(found.events, 'event'),
  };
}

function backup(view: View): Fact {
  const { last_backup: last, command } = view.state;
  const name = 'Last back-up';
  if (last === null) return { name, value: 'never', more: ['by ', markup`<code>${command} backup</code>`] };
  return {
    name,
    value: ago(Date.parse(last.at), takenAt(view)),
    more: `${counted(last.events, 'event')}, ${count(last.events_since)} since`,
  };
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;

/** The day, and the time until then if it is soon. */
export function expiry(instant: string, now: number): Child {
  const left = (Date.parse(instant) - now) / DAY_MS;
  if (left <= 0) return [day(instant), ' ', chip('warning', 'over')];
  return left <= SOON_DAYS ? [day(instant), ' ', chip('warning', `in ${days(left)}`)] : day(instant);
}
