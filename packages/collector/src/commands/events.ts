/** `collector events`: prints the stored events exactly as sent, one JSON object per line. */
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { Config } from '../config.js';
import type { Actions, Erasure } from '../privacy/actions.js';
import {
  BEGINNING,
  type Cursor,
  cursorAt,
  type EventFacts,
  type EventFilter,
  type EntryLog,
  type EventLog,
  type Place,
  type StoredEntry,
  type StoredEvent,
} from '../store/contract/events.js';
import { isShared } from '../store/open.js';
import { matchingEvents } from '../store/matching-events.js';
import { uuidBytes } from '../store/text.js';
import type { GivenOut } from './access-log.js';
import { type CatalogueAccess, openCatalogue, unknownNamesIn } from './catalogue.js';
import { defineCommand } from './define.js';
import { CommandFailure, EXIT, interruption, usage } from './exit-codes.js';
import { type LogReading, readLog } from './log-reading.js';
import { assertReaches, LOG_DIRECTORIES } from './regular-files.js';
import { giveText, jsonLine } from './terminal.js';
import {
  idFrom,
  notThere,
  organisationFrom,
  periodFrom,
  recordMeant,
  runIdFrom,
  wordsFrom,
} from './arguments.js';

const EXAMPLES = `  $ collector events --since 2026-01-01 --kind outcome,user-feedback
  $ collector events --run 0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10 | jq '.body | fromjson'
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10
  $ collector events --follow
  $ collector events --event 4863 | jq '.body | fromjson'

Each line has sequence, received_at, kind, profile, door, organisation, key_id, event_id, run_id, sha256 and
body.
"body" is a string with the exact text that was sent; "sha256" is its SHA-256.

The log also has entries of its own: actions such as an erasure (kind 128) and heads of the access log (kind
129).
--event prints one of them by its number, with the same members.

A collector may run at the same time. The arguments and the number of events printed are logged in access.log
in the data directory. If that file cannot be written, nothing is printed, except from a snapshot: a read-only
file system on which no collector runs is read with a warning.

Exit codes: 6 no event matches the id of --event or --run and the other options, or the log has no entry of
its own with this number.`;

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
/** Bodies held in memory at a time. */
const READ_BYTES = 4 << 20;
const MOST_ORGANISATIONS = 1 << 16;
/** Characters written at a time, approximately. */
const PIECE = 64 << 10;

export const command = defineCommand<EventsOptions>({
  name: 'events',
  description: 'Print stored events as NDJSON, in the order in which they were stored.',
  options: {
    '--kind <kinds>': `only these kinds, separated by commas: ${EVENT_KINDS.join(', ')}`,
    '--run <id>': 'only events of this run, or the one that opens it; a short id from "runs" is accepted',
    '--event <id>':
      'only the event with this id, in every organisation that has one; or the entry with this number',
    '--organisation <name>': 'only events of this organisation',
    '--since <time>': 'only events received at or after this time: a date or an RFC 3339 instant',
    '--until <time>': 'only events received before this time',
    '--follow': 'print new events as they arrive, until interrupted',
  },
  configuration: 'events',
  examples: EXAMPLES,
  async run({ options, config }) {
    const entry = entryFrom(options);
    if (entry !== undefined) return printEntry(config(), entry);
    const filter = filterFrom(options);
    if (options.run !== undefined) runIdFrom('--run', options.run);
    await print(config(), { filter, run: options.run }, options);
  },
});

async function print(config: Config, { filter: asked, run }: Query, options: EventsOptions): Promise<void> {
  const { kind, event, organisation, since, until, follow } = options;
  const meant = run === undefined ? undefined : runIdFrom('--run', run);
  if (meant?.isWhole === false && isShared(config))
    throw usage('--run: only a mirror has the catalogue that resolves short ids: give the whole id');
  const filter = { kind, run, event, organisation, since, until, follow };
  const isOfLog = run === undefined && event === undefined;
  const signal = interruption();
  const work = async (reading: LogReading) => {
    const { files, givenOut, claimed, dataDir, place } = reading;
    const printing = new Printing(reading, signal);
    const found =
      files === undefined
        ? await printing.byId({ ...asked, ...(meant !== undefined && { runId: meant.id }) })
        : await printing.byCatalogue(files, dataDir, { filter: asked, run });
    let { cursor } = found;
    for (let isFirst = true; isFirst || (follow && !signal.aborted); isFirst = false) {
      if (!isFirst) await sleep(FOLLOW_EVERY_MS, undefined, { signal }).catch(() => undefined);
      cursor = await printing.from(cursor, found.filter);
      if (!signal.aborted) assertReaches(cursor.sequence - 1, claimed);
      if (isFirst && givenOut.events === 0 && files !== undefined)
        for (const warning of await unknownNamesIn(dataDir, { organisation }, signal))
          process.stderr.write(`collector: warning: ${warning}\n`);
    }
    if (!follow) signal.throwIfAborted();
    givenOut.complete = true;
    if (givenOut.events > 0 || follow) return;
    const others = [kind, organisation, since, until, event === undefined ? undefined : run];
    const isNarrowed = others.some((each) => each !== undefined);
    const { eventId, runId } = found.filter;
    if (eventId !== undefined) throw notThere({ what: 'event', id: eventId, dataDir: place, isNarrowed });
    if (runId !== undefined) throw notThere({ what: 'run', id: runId, dataDir: place, isNarrowed });
  };
  await readLog(config, { command: 'events', filter }, work, isOfLog ? LOG_DIRECTORIES : undefined);
}

/** Prints an entry that the log wrote itself. */
async function printEntry(config: Config, number: number): Promise<void> {
  const access = { command: 'events', filter: { entry: number } };
  await readLog(config, access, (reading) => printOwnEntry(reading, number), LOG_DIRECTORIES);
}

async function printOwnEntry(
  { events, claimed, place, givenOut }: LogReading,
  number: number,
): Promise<void> {
  const entries = events.entries(cursorAt(number));
  for (;;) {
    const next = await entries.next();
    if (next.done) {
      assertReaches(next.value.sequence - 1, claimed);
      givenOut.complete = true;
      throw notThere({ what: 'entry', id: `${number}`, dataDir: place });
    }
    const [entry] = next.value;
    if (entry === undefined) continue;
    givenOut.complete = true;
    if (typeof entry.kind === 'string')
      throw new CommandFailure(
        `entry ${number} is an event: print it with collector events --event ${entry.eventId}`,
        EXIT.notFound,
      );
    givenOut.events++;
    process.stdout.write(jsonLine(lineOf(entry)));
    await entries.return(cursorAt(number));
    return;
  }
}

/** The number of an entry that the log wrote itself; undefined if --event does not give one. */
function entryFrom(options: EventsOptions): number | undefined {
  const { event = '', kind, run, organisation, since, until, follow } = options;
  if (!/^[1-9]\d{0,14}$/.test(event)) return undefined;
  const filters = { kind, run, organisation, since, until, follow };
  const [other] = Object.entries(filters).find(([, value]) => value !== undefined) ?? [];
  if (other !== undefined) throw usage(`--event: an entry number cannot be combined with --${other}`);
  return Number(event);
}

/** The request; `run` is the text that was typed. */
interface Query {
  readonly filter: EventFilter;
  readonly run: string | undefined;
}

interface Found {
  /** The filter, with the whole run id. */
  readonly filter: EventFilter;
  /** The position after the last entry that was examined. */
  readonly cursor: Cursor;
}

class Printing {
  readonly #log: EntryLog;
  readonly #scan: EventLog['scan'];
  readonly #givenOut: GivenOut;

  constructor(
    { events, files, givenOut }: LogReading,
    private readonly signal: AbortSignal,
  ) {
    this.#log = events;
    this.#scan = (filter, from) => files?.scan(filter, from) ?? matchingEvents(events, filter, from);
    this.#givenOut = givenOut;
  }

  /** Prints the requested events of a run or an id, up to the end of what the catalogue covers. */
  async byCatalogue(log: EventLog, dataDir: string, { filter, run }: Query): Promise<Found> {
    const { organisation, eventId } = filter;
    if (run === undefined && eventId === undefined) return { filter, cursor: BEGINNING };
    const whole = run === undefined ? undefined : runIdFrom('--run', run);
    const known = whole?.isWhole ? { ...filter, runId: whole.id } : filter;
    let access: CatalogueAccess;
    try {
      const quiet = !process.stderr.isTTY;
      access = await openCatalogue({ dataDir, quiet, signal: this.signal });
    } catch (error) {
      // The events before the damage are still printed, followed by the damage.
      const isDamaged = error instanceof CommandFailure && error.exitCode === EXIT.damaged;
      if (isDamaged && (whole?.isWhole ?? true)) return { filter: known, cursor: BEGINNING };
      throw error;
    }
    try {
      return await access.ask(async (catalogue) => {
        const asked = { option: '--run', text: run ?? '', organisation };
        const runId =
          whole === undefined || whole.isWhole ? known.runId : recordMeant(catalogue, asked, dataDir);
        const places =
          eventId !== undefined
            ? await placesOf(log, access, eventId, organisation)
            : catalogue.run(organisation, runId ?? '', MOST_ORGANISATIONS).flatMap((each) => each.events());
        const meant = { ...filter, ...(runId !== undefined && { runId }) };
        await this.#read(log, places, meant);
        return { filter: meant, cursor: access.cursor };
      });
    } finally {
      await access.close();
    }
  }

  /** Prints the events with the requested id, if there is one. */
  async byId(filter: EventFilter): Promise<Found> {
    const { eventId, organisation } = filter;
    if (eventId === undefined) return { filter, cursor: BEGINNING };
    const { entries, nextSequence } = await this.#log.withId({ eventId, organisation, known: [] });
    for (const entry of entries) {
      if (typeof entry.kind === 'number') continue;
      const event = { ...entry, kind: entry.kind };
      if (isAskedFor(event, filter)) await this.#print(event);
    }
    await this.#flush();
    return { filter, cursor: cursorAt(nextSequence) };
  }

  async #read(log: EventLog, places: Place[], filter: EventFilter): Promise<void> {
    places.sort((a, b) => a.at - b.at);
    for (let next = 0; next < places.length;) {
      let bytes = 0;
      const first = next;
      while (next < places.length && bytes < READ_BYTES) bytes += places[next++]?.size ?? 0;
      const read = await log.read(places.slice(first, next));
      for (let i = 0; i < next - first; i++) {
        const facts = read.facts(i);
        if (!isAskedFor(facts, filter)) continue;
        const body = read.source.subarray(read.bodyFrom(i), read.bodyTo(i));
        await this.#print({ ...facts, body });
      }
    }
    await this.#flush();
  }

  /** @returns where to continue; `from` if the signal stopped it. */
  async from(from: Cursor, filter: EventFilter): Promise<Cursor> {
    const scan = this.#scan(filter, from);
    for (;;) {
      const next = await scan.next();
      if (next.done) return next.value;
      for (const event of next.value) {
        await this.#print(event);
        if (!this.signal.aborted) continue;
        await scan.return(from);
        return from;
      }
      await this.#flush();
    }
  }

  #piece = '';

  async #print(event: Printed): Promise<void> {
    const { payloadState, sequence } = event;
    const erasure = payloadState === 'erased' ? (event.erasure ?? this.#erasureOf(sequence)) : undefined;
    this.#piece += jsonLine(lineOf({ ...event, erasure }));
    this.#givenOut.events++;
    if (this.#piece.length >= PIECE) await this.#flush();
  }

  /** Actions, read once per batch. */
  #actions: Actions | undefined;

  #erasureOf(sequence: number): Erasure | undefined {
    this.#actions ??= this.#log.actions?.();
    return this.#actions?.erasureOf(sequence);
  }

  async #flush(): Promise<void> {
    const piece = this.#piece;
    this.#piece = '';
    this.#actions = undefined;
    if (piece !== '') await giveText(piece, this.signal);
  }
}

type Printed = EventFacts & Pick<StoredEvent, 'body'>;

/** The log is read to its end: what the catalogue does not cover yet is left to the scan that follows. */
async function placesOf(
  log: EventLog,
  { catalogue, cursor }: Pick<CatalogueAccess, 'catalogue' | 'cursor'>,
  eventId: string,
  organisation: string | undefined,
): Promise<Place[]> {
  const id = uuidBytes(eventId);
  const places: Place[] = [];
  for (const each of organisation === undefined ? catalogue.organisations() : [organisation]) {
    const found = await log.find(each, id);
    if (found !== undefined && found.sequence < cursor.sequence) places.push(found);
  }
  return places;
}

/** Decides as `EventLog.scan` does. */
function isAskedFor(event: EventFacts, filter: EventFilter): boolean {
  const { kinds, runId, since = -Infinity, until = Infinity } = filter;
  if (kinds !== undefined && !kinds.has(event.kind)) return false;
  if (runId !== undefined && event.runId !== runId) return false;
  return event.receivedAt >= since && event.receivedAt < until;
}

/** The output for programs, which rely on the names. */
function lineOf(event: Printed | StoredEntry): object {
  const plain = event.payloadState === 'plain';
  const erasure = 'erasure' in event ? event.erasure : undefined;
  return {
    sequence: event.sequence,
    received_at: new Date(event.receivedAt).toISOString(),
    kind: event.kind,
    profile: event.profile,
    door: event.door,
    organisation: event.organisation,
    key_id: event.keyId,
    event_id: event.eventId,
    run_id: event.runId ?? null,
    sha256: plain ? hash('sha256', event.body, 'hex') : null,
    payload_state: plain ? undefined : event.payloadState,
    action: erasure?.action,
    erased_at: erasure && new Date(erasure.at).toISOString(),
    body: plain ? event.body.toString() : null,
  };
}

function filterFrom({ kind, event, organisation, ...period }: EventsOptions): EventFilter {
  return {
    ...(kind !== undefined && { kinds: wordsFrom('--kind', kind, EVENT_KINDS) }),
    ...(event !== undefined && { eventId: idFrom('--event', event) }),
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...periodFrom(period, true),
  };
}
