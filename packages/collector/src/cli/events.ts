/** `collector events`: the stored events, exactly as they were sent, one JSON object a line. */
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { Command } from 'commander';
import type { Config } from '../config.js';
import { openStore } from '../store/open.js';
import { BEGINNING, type Cursor, type EventFilter, type EventLog } from '../store/event-log.js';
import { StoreDamaged, type StoredEvent } from '../store/store.js';
import { addConfigOptions, configOf } from './config-options.js';
import { idFrom, instantFrom, kindsFrom, notThere, organisationFrom } from './event-arguments.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { assertReaches, claimedSize } from './log-checkpoints.js';
import { noteReading, type GivenOut } from './noted-reading.js';
import { printableJson } from './printable.js';
import { assertReadable, LOG_DIRECTORIES } from './regular-files.js';
import { unknownNamesIn } from './unknown-names.js';

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
collector runs: a snapshot is read with a warning.

Exit codes: 6 there is no event with the id of --event, or of the run of --run, among those asked for.`;

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
      await print(configOf(self, 'events'), filterFrom(options), options);
    });
}

async function print(config: Config, filter: EventFilter, options: EventsOptions): Promise<void> {
  assertReadable(config.dataDir, LOG_DIRECTORIES);
  const log = openStore(config.dataDir).events;
  // Asked first: a running collector goes on while the log is read.
  const claimed = await claimedSize(openStore(config.dataDir).tree);
  const { kind, run, event, organisation, since, until, follow } = options;
  const givenOut = noteReading(config.dataDir, {
    command: 'events',
    filter: { kind, run, event, organisation, since, until, follow },
  });
  const stop = new AbortController();
  if (follow) {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort());
  }
  try {
    let cursor = BEGINNING;
    let isFirst = true;
    do {
      cursor = await printFrom(cursor, log.scan(filter, cursor), givenOut, stop.signal);
      if (!stop.signal.aborted) assertReaches(cursor.sequence - 1, claimed);
      if (isFirst && givenOut.events === 0) {
        for (const warning of await unknownNamesIn(config.dataDir, { organisation }, stop.signal))
          process.stderr.write(`collector: warning: ${warning}\n`);
      }
      isFirst = false;
      if (follow) await sleep(FOLLOW_EVERY_MS, undefined, { signal: stop.signal }).catch(() => undefined);
    } while (follow && !stop.signal.aborted);
    givenOut.complete = true;
    if (givenOut.events > 0 || follow) return;
    const others = [kind, organisation, since, until, event === undefined ? undefined : run];
    const isNarrowed = others.some((each) => each !== undefined);
    const { eventId, runId } = filter;
    if (eventId !== undefined)
      throw notThere({ what: 'event', id: eventId, dataDir: config.dataDir, isNarrowed });
    if (runId !== undefined) throw notThere({ what: 'run', id: runId, dataDir: config.dataDir, isNarrowed });
  } catch (error) {
    if (error instanceof StoreDamaged)
      throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
    throw error;
  } finally {
    await log.close();
  }
}

/** @returns where to go on; where it was begun when it was stopped. */
async function printFrom(
  from: Cursor,
  scan: ReturnType<EventLog['scan']>,
  givenOut: GivenOut,
  signal: AbortSignal,
): Promise<Cursor> {
  for (;;) {
    const next = await scan.next();
    if (next.done) return next.value;
    let piece = '';
    for (const event of next.value) {
      piece += `${printableJson(lineOf(event))}\n`;
      givenOut.events++;
      if (piece.length < PIECE) continue;
      await write(piece);
      piece = '';
      if (!signal.aborted) continue;
      await scan.return(from);
      return from;
    }
    await write(piece);
  }
}

function lineOf(event: StoredEvent): string {
  const plain = event.payloadState === 'plain';
  return JSON.stringify({
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
}

async function write(text: string): Promise<void> {
  if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain');
}

function filterFrom({ kind, run, event, organisation, since, until }: EventsOptions): EventFilter {
  const filter: EventFilter = {
    ...(kind !== undefined && { kinds: kindsFrom(kind) }),
    ...(run !== undefined && { runId: idFrom('--run', run) }),
    ...(event !== undefined && { eventId: idFrom('--event', event) }),
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(since !== undefined && { since: instantFrom('--since', since) }),
    ...(until !== undefined && { until: instantFrom('--until', until) }),
  };
  if (filter.since !== undefined && filter.until !== undefined && filter.since > filter.until) {
    throw new CommandFailure(`--since: ${since} is later than --until ${until}`, EXIT.usage);
  }
  return filter;
}
