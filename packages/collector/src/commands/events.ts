/** `collector events`: the stored events, exactly as they were sent, one JSON object a line. */
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { Command } from 'commander';
import type { Catalogue } from '../catalogue/catalogue.js';
import type { Config } from '../config.js';
import type { Actions, Retirement } from '../privacy/actions.js';
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
import { describeStore, isShared } from '../store/open.js';
import { matchingEvents } from '../store/matching-events.js';
import { claimedSize, openSharedStore, openStore, sharedKeyPlaces } from '../store/open-to-read.js';
import { uuidBytes } from '../store/text.js';
import { type GivenOut, logAccess, logSharedAccess } from './access-log.js';
import { type CatalogueAccess, openCatalogue, unknownNamesIn } from './catalogue.js';
import { CommandFailure, EXIT, interruption, usage } from './exit-codes.js';
import { LOG_DIRECTORIES, assertReaches, assertReadable } from './regular-files.js';
import { printableJson } from './terminal.js';
import {
  addConfigOptions,
  configOf,
  idFrom,
  instantFrom,
  notThere,
  organisationFrom,
  recordMeant,
  runIdFrom,
  wordsFrom,
} from './arguments.js';

const EXAMPLES = `
Each line holds sequence, received_at, kind, profile, door, organisation, key_id, event_id, run_id, sha256 and body.
"body" is a string with the exact text that was sent; its SHA-256 is "sha256".

Examples:
  $ collector events --since 2026-01-01 --kind outcome,user-feedback
  $ collector events --run 0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10 | jq '.body | fromjson'
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10
  $ collector events --follow
  $ collector events --entry 4863 | jq '.body | fromjson'

The log has entries of its own among the events: actions such as an erasure (kind 128) and heads of the access log (kind
129). --entry prints one by its number, with the same members.

It can run beside a collector. That it ran, what it was asked for and how much it gave out is logged in access.log in
the data directory. Where that cannot be written nothing is printed, but for a read-only file system on which no
collector runs: a snapshot is read with a warning.

Exit codes: 6 there is no event with the id of --event, or of the run of --run, among those asked for, or no entry of the
log's own has the number of --entry.`;

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
/** Lines are written in pieces of about so many characters. */
const PIECE = 64 << 10;

export function command(): Command {
  const events = new Command('events')
    .description('Print stored events as NDJSON, in the order in which they were stored.')
    .option('--kind <kinds>', `only these kinds, separated by commas: ${EVENT_KINDS.join(', ')}`)
    .option('--run <id>', 'only events that name this run, or open it; the short id of "runs" will do')
    .option('--event <id>', 'only the event with this id, of every organisation that has one')
    .option('--organisation <name>', 'only events of this organisation')
    .option('--since <time>', 'only events received at this instant or later: a date or an RFC 3339 instant')
    .option('--until <time>', 'only events received before this instant')
    .option('--follow', 'go on with new events as they arrive, until interrupted')
    .option(
      '--entry <number>',
      "only the entry of the log's own that has this number; goes with no other of these",
    );
  return addConfigOptions(events, 'events')
    .addHelpText('after', EXAMPLES)
    .action(async (options: EventsOptions, self: Command) => {
      const filter = filterFrom(options);
      if (options.run !== undefined) runIdFrom('--run', options.run);
      if (options.entry !== undefined) return printEntry(configOf(self, 'events'), entryFrom(options));
      await print(configOf(self, 'events'), { filter, run: options.run }, options);
    });
}

async function print(config: Config, asked: Query, options: EventsOptions): Promise<void> {
  if (isShared(config)) return printShared(config, asked, options);
  const { dataDir } = config;
  const { kind, run, event, organisation, since, until, follow } = options;
  assertReadable(dataDir, run === undefined && event === undefined ? LOG_DIRECTORIES : undefined);
  // Asked first: a running collector goes on while the log is read.
  const claimed = await claimedSize(openStore(dataDir).tree);
  const givenOut = logAccess(dataDir, {
    command: 'events',
    filter: { kind, run, event, organisation, since, until, follow },
  });
  // An update of the catalogue is ended in order.
  const isEnded = follow || run !== undefined || event !== undefined;
  const signal = isEnded ? interruption() : new AbortController().signal;
  const log = openStore(dataDir).events;
  try {
    const scan: EventLog['scan'] = (filter, from) => log.scan(filter, from);
    const printing = new Printing(log, scan, givenOut, signal);
    const found = await printing.byIndex(log, dataDir, asked);
    const { filter } = found;
    let { cursor } = found;
    for (let isFirst = true; isFirst || (follow && !signal.aborted); isFirst = false) {
      if (!isFirst) await sleep(FOLLOW_EVERY_MS, undefined, { signal }).catch(() => undefined);
      cursor = await printing.from(cursor, filter);
      if (!signal.aborted) assertReaches(cursor.sequence - 1, claimed);
      if (isFirst && givenOut.events === 0) {
        for (const warning of await unknownNamesIn(dataDir, { organisation }, signal))
          process.stderr.write(`collector: warning: ${warning}\n`);
      }
    }
    givenOut.complete = true;
    if (givenOut.events > 0 || follow) return;
    const others = [kind, organisation, since, until, event === undefined ? undefined : run];
    const isNarrowed = others.some((each) => each !== undefined);
    const { eventId, runId } = filter;
    if (eventId !== undefined) throw notThere({ what: 'event', id: eventId, dataDir, isNarrowed });
    if (runId !== undefined) throw notThere({ what: 'run', id: runId, dataDir, isNarrowed });
  } finally {
    await log.close();
  }
}

/** From a database, which finds an event by its id; a run by reading the log. */
async function printShared(
  config: Config,
  { filter: asked, run }: Query,
  options: EventsOptions,
): Promise<void> {
  const { kind, event, organisation, since, until, follow } = options;
  const meant = run === undefined ? undefined : runIdFrom('--run', run);
  if (meant?.isWhole === false) {
    throw usage('--run: a short id is looked for in the catalogue, which a mirror has: give the whole id');
  }
  const filter = { ...asked, ...(meant !== undefined && { runId: meant.id }) };
  const signal = interruption();
  const shared = await openSharedStore(config, sharedKeyPlaces(config.dataDir));
  const { events: log } = shared;
  try {
    const givenOut = await logSharedAccess(shared.accessLog, {
      command: 'events',
      filter: { kind, run, event, organisation, since, until, follow },
    });
    try {
      const claimed = await claimedSize(shared.tree);
      const scan: EventLog['scan'] = (filter, from) => matchingEvents(log, filter, from);
      const printing = new Printing(log, scan, givenOut, signal);
      let cursor = event === undefined ? BEGINNING : await printing.withId(filter);
      for (let isFirst = true; isFirst || (follow && !signal.aborted); isFirst = false) {
        if (!isFirst) await sleep(FOLLOW_EVERY_MS, undefined, { signal }).catch(() => undefined);
        cursor = await printing.from(cursor, filter);
        if (!signal.aborted) assertReaches(cursor.sequence - 1, claimed);
      }
      givenOut.complete = true;
      if (givenOut.events > 0 || follow) return;
      const others = [kind, organisation, since, until, event === undefined ? undefined : run];
      const isNarrowed = others.some((each) => each !== undefined);
      const dataDir = describeStore(config);
      const { eventId, runId } = filter;
      if (eventId !== undefined) throw notThere({ what: 'event', id: eventId, dataDir, isNarrowed });
      if (runId !== undefined) throw notThere({ what: 'run', id: runId, dataDir, isNarrowed });
    } finally {
      await givenOut.end();
    }
  } finally {
    await shared.close();
  }
}

/** Prints one of the log's own entries. */
async function printEntry(config: Config, entry: number): Promise<void> {
  const access = { command: 'events', filter: { entry } };
  if (!isShared(config)) {
    const { dataDir } = config;
    assertReadable(dataDir, LOG_DIRECTORIES);
    const { events: log, tree } = openStore(dataDir);
    const claimed = await claimedSize(tree);
    const givenOut = logAccess(dataDir, access);
    try {
      await givenEntry(log, { entry, claimed, dataDir }, givenOut);
      return;
    } finally {
      await log.close();
    }
  }
  const shared = await openSharedStore(config, sharedKeyPlaces(config.dataDir));
  try {
    const givenOut = await logSharedAccess(shared.accessLog, access);
    try {
      const asked = { entry, claimed: await claimedSize(shared.tree), dataDir: describeStore(config) };
      await givenEntry(shared.events, asked, givenOut);
    } finally {
      await givenOut.end();
    }
  } finally {
    await shared.close();
  }
}

async function givenEntry(
  log: EntryLog,
  asked: { readonly entry: number; readonly claimed: number; readonly dataDir: string },
  givenOut: GivenOut,
): Promise<void> {
  const entries = log.entries(cursorAt(asked.entry));
  for (;;) {
    const next = await entries.next();
    if (next.done) {
      assertReaches(next.value.sequence - 1, asked.claimed);
      givenOut.complete = true;
      throw notThere({ what: 'entry', id: `${asked.entry}`, dataDir: asked.dataDir });
    }
    const [entry] = next.value;
    if (entry === undefined) continue;
    givenOut.complete = true;
    if (typeof entry.kind === 'string')
      throw new CommandFailure(
        `entry ${asked.entry} is an event: collector events --event ${entry.eventId} prints it`,
        EXIT.notFound,
      );
    givenOut.events++;
    process.stdout.write(`${printableJson(lineOf(entry))}\n`);
    await entries.return(cursorAt(asked.entry));
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
  constructor(
    private readonly log: EntryLog,
    private readonly scan: EventLog['scan'],
    private readonly givenOut: GivenOut,
    private readonly signal: AbortSignal,
  ) {}

  /** Prints the events of the run or the id that is asked for, as far as the catalogue covers the log. */
  async byIndex(log: EventLog, dataDir: string, { filter, run }: Query): Promise<Found> {
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

  /** Prints the events that have the id that is asked for. @returns behind the last entry that was looked at. */
  async withId(filter: EventFilter): Promise<Cursor> {
    const { eventId = '', organisation } = filter;
    const { entries, nextSequence } = await this.log.withId({ eventId, organisation, known: [] });
    for (const entry of entries) {
      if (typeof entry.kind === 'number') continue;
      const event = { ...entry, kind: entry.kind };
      if (isAskedFor(event, filter)) await this.#print(event);
    }
    await this.#flush();
    return cursorAt(nextSequence);
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
    const scan = this.scan(filter, from);
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
    const retirement =
      payloadState === 'retired' ? (event.retirement ?? this.#retirementOf(sequence)) : undefined;
    this.#piece += `${printableJson(lineOf({ ...event, retirement }))}\n`;
    this.givenOut.events++;
    if (this.#piece.length >= PIECE) await this.#flush();
  }

  /** Actions are read once a batch. */
  #actions: Actions | undefined;

  #retirementOf(sequence: number): Retirement | undefined {
    this.#actions ??= this.log.actions?.();
    return this.#actions?.retirementOf(sequence);
  }

  async #flush(): Promise<void> {
    const piece = this.#piece;
    this.#piece = '';
    this.#actions = undefined;
    if (piece !== '' && !process.stdout.write(piece)) await once(process.stdout, 'drain');
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

function lineOf(event: Printed | StoredEntry): string {
  const plain = event.payloadState === 'plain';
  const retirement = 'retirement' in event ? event.retirement : undefined;
  return JSON.stringify({
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
    action: retirement?.action,
    retired_at: retirement && new Date(retirement.at).toISOString(),
    body: plain ? event.body.toString() : null,
  });
}

function filterFrom({ kind, event, organisation, since, until }: EventsOptions): EventFilter {
  const filter: EventFilter = {
    ...(kind !== undefined && { kinds: wordsFrom('--kind', kind, EVENT_KINDS) }),
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
