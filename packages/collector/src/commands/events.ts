/** `collector events`: the stored events, exactly as they were sent, one JSON object a line. */
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { Catalogue } from '../catalogue/catalogue.js';
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
  $ collector events --entry 4863 | jq '.body | fromjson'

Each line holds sequence, received_at, kind, profile, door, organisation, key_id, event_id, run_id, sha256 and body.
"body" is a string with the exact text that was sent; its SHA-256 is "sha256".

The log has entries of its own among the events: actions such as an erasure (kind 128) and heads of the access log (kind
129). --entry prints one by its number, with the same members.

It can run beside a collector. access.log in the data directory has what was asked for and how many events were given out.
Where that cannot be written nothing is printed, except for a read-only file system on which no collector runs: a snapshot
is read with a warning.

Exit codes: 6 no event has the id of --event, or is of the run of --run, among those asked for, or no entry of the log's own
has the number of --entry.`;

interface EventsOptions {
  readonly kind?: string;
  readonly run?: string;
  readonly event?: string;
  readonly organisation?: string;
  readonly since?: string;
  readonly until?: string;
  readonly follow?: true;
  readonly entry?: string;
}

const FOLLOW_EVERY_MS = 200;
/** Bodies that are in memory together. */
const READ_BYTES = 4 << 20;
const MOST_ORGANISATIONS = 1 << 16;
/** Lines are written in pieces of about this size, in characters. */
const PIECE = 64 << 10;

export const command = defineCommand<EventsOptions>({
  name: 'events',
  description: 'Print stored events as NDJSON, in the order in which they were stored.',
  options: {
    '--kind <kinds>': `only these kinds, separated by commas: ${EVENT_KINDS.join(', ')}`,
    '--run <id>': 'only events that name this run, or open it; the short id of "runs" will do',
    '--event <id>': 'only the event with this id, of every organisation that has one',
    '--organisation <name>': 'only events of this organisation',
    '--since <time>': 'only events received at this instant or later: a date or an RFC 3339 instant',
    '--until <time>': 'only events received before this instant',
    '--follow': 'print new events as they arrive, until interrupted',
    '--entry <number>': "only the entry of the log's own that has this number; goes with no other of these",
  },
  configuration: 'events',
  examples: EXAMPLES,
  async run({ options, config }) {
    const filter = filterFrom(options);
    if (options.run !== undefined) runIdFrom('--run', options.run);
    if (options.entry !== undefined) return printEntry(config(), entryFrom(options));
    await print(config(), { filter, run: options.run }, options);
  },
});

async function print(config: Config, { filter: asked, run }: Query, options: EventsOptions): Promise<void> {
  const { kind, event, organisation, since, until, follow } = options;
  const meant = run === undefined ? undefined : runIdFrom('--run', run);
  if (meant?.isWhole === false && isShared(config))
    throw usage('--run: a short id is looked for in the catalogue, which a mirror has: give the whole id');
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

/** Prints one of the log's own entries. */
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
        `entry ${number} is an event: collector events --event ${entry.eventId} prints it`,
        EXIT.notFound,
      );
    givenOut.events++;
    process.stdout.write(jsonLine(lineOf(entry)));
    await entries.return(cursorAt(number));
    return;
  }
}

function entryFrom({
  entry = '',
  kind,
  run,
  event,
  organisation,
  since,
  until,
  follow,
}: EventsOptions): number {
  const others = { kind, run, event, organisation, since, until, follow };
  const [other] = Object.entries(others).find(([, value]) => value !== undefined) ?? [];
  if (other !== undefined) throw usage(`--entry: goes without --${other}`);
  if (!/^[1-9]\d{0,14}$/.test(entry))
    throw usage(`--entry: ${JSON.stringify(entry)} is not the number of an entry, which count from 1`);
  return Number(entry);
}

/** What was asked for; of a run, what was typed. */
interface Query {
  readonly filter: EventFilter;
  readonly run: string | undefined;
}

interface Found {
  /** With the whole id of the run. */
  readonly filter: EventFilter;
  /** Behind the last entry that was looked at. */
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

  /** Prints the events of the run or the id that is asked for, up to where the catalogue covers the log. */
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
      // What stands before the damage is printed, and then what is damaged.
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
            ? await placesOf(log, catalogue, eventId, organisation)
            : catalogue.run(organisation, runId ?? '', MOST_ORGANISATIONS).flatMap((each) => each.events());
        const meant = { ...filter, ...(runId !== undefined && { runId }) };
        await this.#read(log, places, meant);
        return { filter: meant, cursor: access.cursor };
      });
    } finally {
      await access.close();
    }
  }

  /** Prints the events that have the id that is asked for, if one is. */
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

  /** @returns where to go on; where it was begun when it was stopped. */
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

  /** Actions are read once a batch. */
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

async function placesOf(
  log: EventLog,
  catalogue: Catalogue,
  eventId: string,
  organisation: string | undefined,
): Promise<Place[]> {
  const id = uuidBytes(eventId);
  const places: Place[] = [];
  for (const each of organisation === undefined ? catalogue.organisations() : [organisation]) {
    const found = await log.find(each, id);
    if (found !== undefined) places.push(found);
  }
  return places;
}

/** As `EventLog.scan` decides. */
function isAskedFor(event: EventFacts, filter: EventFilter): boolean {
  const { kinds, runId, since = -Infinity, until = Infinity } = filter;
  if (kinds !== undefined && !kinds.has(event.kind)) return false;
  if (runId !== undefined && event.runId !== runId) return false;
  return event.receivedAt >= since && event.receivedAt < until;
}

/** The names are a promise to programs. */
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
