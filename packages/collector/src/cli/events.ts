/** `collector events`: the stored events, exactly as they were sent, one JSON object a line. */
import { hash } from 'node:crypto';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { Command } from 'commander';
import { isOrganisation } from '../access/issuing.js';
import type { Config } from '../config.js';
import { didYouMean } from '../nearest-name.js';
import { isLocked } from '../store/embedded/directory-lock.js';
import { EventReader, type Cursor } from '../store/embedded/event-reader.js';
import { exists, nodeFiles } from '../store/embedded/files.js';
import { StoreDamaged, type ScanRange, type StoredEvent } from '../store/store.js';
import { accessLogPath, beginReading, ReadOnly, type Reading, type ReadingEnd } from './access-log.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT } from './exit-codes.js';

const EXAMPLES = `
Each line holds sequence, received_at, kind, profile, organisation, key_id, event_id, run_id, sha256 and body.
"body" is a string with the exact text that was sent; its SHA-256 is "sha256".

Examples:
  $ collector events --since 2026-01-01 --kind outcome,user-feedback
  $ collector events --run 0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10 | jq '.body | fromjson'
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10
  $ collector events --follow

It can run beside a collector. That it ran, what it was asked for and how much it gave out is noted in access.log in
the data directory. Where that cannot be written nothing is printed, but for a read-only file system on which no
collector runs: a snapshot is read with a warning.`;

interface EventsOptions {
  readonly kind?: string;
  readonly run?: string;
  readonly event?: string;
  readonly organisation?: string;
  readonly since?: string;
  readonly until?: string;
  readonly follow?: true;
}

const FOLLOW_EVERY_MS = 200;
/** Lines are written in pieces of about so many characters. */
const PIECE = 64 << 10;

export function command(): Command {
  const events = new Command('events')
    .description('Print stored events as NDJSON, in the order in which they were stored.')
    .option('--kind <kinds>', `only these kinds, separated by commas: ${EVENT_KINDS.join(', ')}`)
    .option('--run <id>', 'only events that name this run, or open it')
    .option('--event <id>', 'only the event with this id, of every organisation that has one')
    .option('--organisation <name>', 'only events of this organisation')
    .option('--since <time>', 'only events received at this instant or later: a date or an RFC 3339 instant')
    .option('--until <time>', 'only events received before this instant')
    .option('--follow', 'go on with new events as they arrive, until interrupted');
  return addConfigOptions(events, 'events')
    .addHelpText('after', EXAMPLES)
    .action(async (options: EventsOptions, self: Command) => {
      await print(configOf(self, 'events'), rangeFrom(options), options);
    });
}

async function print(config: Config, range: ScanRange, options: EventsOptions): Promise<void> {
  if (!exists(path.join(config.dataDir, 'ledger'))) {
    throw new CommandFailure(`${config.dataDir} holds no ledger`, EXIT.notFound);
  }
  const reader = new EventReader(config.dataDir, nodeFiles);
  const { kind, run, event, organisation, since, until, follow } = options;
  let events = 0;
  let complete = false;
  const end = noteReading(config.dataDir, {
    command: 'events',
    filter: { kind, run, event, organisation, since, until, follow },
  });
  // Also when nobody reads on (a closed pipe).
  process.once('exit', () => {
    try {
      end({ events, complete });
    } catch (error) {
      // What was given out cannot be taken back; that it began has been noted.
      process.stderr.write(`collector: ${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = EXIT.failure;
    }
  });
  const stop = new AbortController();
  if (follow) {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort());
  }
  try {
    let cursor: Cursor | undefined;
    do {
      const scan: Generator<StoredEvent, Cursor> = reader.scan(range, cursor);
      let piece = '';
      for (;;) {
        let next: IteratorResult<StoredEvent, Cursor>;
        try {
          next = scan.next();
        } catch (error) {
          // The events before the damaged one are whole.
          await write(piece);
          throw error;
        }
        if (next.done) {
          cursor = next.value;
          break;
        }
        piece += `${lineOf(next.value)}\n`;
        events++;
        if (piece.length < PIECE) continue;
        await write(piece);
        piece = '';
        if (stop.signal.aborted) break;
      }
      await write(piece);
      if (follow) await sleep(FOLLOW_EVERY_MS, undefined, { signal: stop.signal }).catch(() => undefined);
    } while (follow && !stop.signal.aborted);
    complete = true;
    if (event !== undefined && events === 0 && !follow) {
      throw new CommandFailure(`there is no event ${event} among those asked for`, EXIT.notFound);
    }
  } catch (error) {
    if (error instanceof StoreDamaged)
      throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
    throw error;
  }
}

/**
 * @returns notes the end.
 * @throws CommandFailure when the reading cannot be noted; but a snapshot that cannot be written is read all the
 * same, with a warning. A directory that a collector holds is none, however this process has it mounted.
 */
function noteReading(dataDir: string, reading: Reading): (end: ReadingEnd) => void {
  try {
    return beginReading(dataDir, reading);
  } catch (error) {
    if (!(error instanceof ReadOnly)) throw error;
    if (isLocked(dataDir)) {
      throw new CommandFailure(
        `${error.message}, and nothing is read without a note of it there while a collector runs`,
        EXIT.failure,
        { cause: error },
      );
    }
    process.stderr.write(
      `collector: warning: ${accessLogPath(dataDir)} cannot be written, because the file system is read-only: ` +
        'this reading is not noted\n',
    );
    return () => undefined;
  }
}

/**
 * Control and direction characters that JSON lets stand as they are. A sender must not be able to move the cursor
 * of whoever looks at an event, or to turn its text around; escaped they are the same JSON.
 */
const UNPRINTABLE = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function lineOf(event: StoredEvent): string {
  const plain = event.payloadState === 'plain';
  const line = JSON.stringify({
    sequence: event.sequence,
    received_at: new Date(event.receivedAt).toISOString(),
    kind: event.kind,
    profile: event.profile,
    organisation: event.organisation,
    key_id: event.keyId,
    event_id: event.eventId,
    run_id: event.runId ?? null,
    sha256: plain ? hash('sha256', event.body, 'hex') : null,
    payload_state: plain ? undefined : event.payloadState,
    body: plain ? event.body.toString() : null,
  });
  return line.replace(UNPRINTABLE, escaped);
}

async function write(text: string): Promise<void> {
  if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain');
}

function rangeFrom({ kind, run, event, organisation, since, until }: EventsOptions): ScanRange {
  const range: ScanRange = {
    ...(kind !== undefined && { kinds: kindsFrom(kind) }),
    ...(run !== undefined && { runId: idFrom('--run', run) }),
    ...(event !== undefined && { eventId: idFrom('--event', event) }),
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(since !== undefined && { since: instantFrom('--since', since) }),
    ...(until !== undefined && { until: instantFrom('--until', until) }),
  };
  if (range.since !== undefined && range.until !== undefined && range.since > range.until) {
    throw new CommandFailure(`--since: ${since} is later than --until ${until}`, EXIT.usage);
  }
  return range;
}

/** No key belongs to a name of another form. So a script's empty variable is a fault, and not an empty answer. */
function organisationFrom(text: string): string {
  if (isOrganisation(text)) return text;
  throw new CommandFailure(
    `--organisation: ${JSON.stringify(text)} is not 1 to 64 characters of A-Z a-z 0-9 . _ -`,
    EXIT.usage,
  );
}

function kindsFrom(text: string): ReadonlySet<EventKind> {
  const known: readonly string[] = EVENT_KINDS;
  const kinds = text.split(',').map((name) => name.trim());
  const unknown = kinds.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new CommandFailure(
      `--kind: ${JSON.stringify(unknown)} is none of ${EVENT_KINDS.join(', ')}${didYouMean(unknown, EVENT_KINDS)}`,
      EXIT.usage,
    );
  }
  return new Set(kinds as EventKind[]);
}

function idFrom(option: string, text: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) {
    throw new CommandFailure(`${option}: ${JSON.stringify(text)} is not a UUID`, EXIT.usage);
  }
  return text.toLowerCase();
}

/** A date stands for its beginning in UTC; anything longer has to say its offset. */
function instantFrom(option: string, text: string): number {
  const shape = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/i;
  const instant = shape.test(text) ? Date.parse(text) : Number.NaN;
  // Date.parse takes 31 February for 3 March.
  const day = Date.parse(text.slice(0, 10));
  if (Number.isNaN(instant) || new Date(day).getUTCDate() !== Number(text.slice(8, 10))) {
    throw new CommandFailure(
      `${option}: ${JSON.stringify(text)} is neither a date (2026-01-31) nor an instant (2026-01-31T12:00:00Z)`,
      EXIT.usage,
    );
  }
  return instant;
}
