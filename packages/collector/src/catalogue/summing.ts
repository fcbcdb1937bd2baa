/**
 * Sums records: reads their events from the log and computes the values of their rows. It uses the log but no
 * tables, so that it can run in its own thread (summing-thread.ts).
 */
import { setImmediate as turn } from 'node:timers/promises';
import { assembleRun } from '../records/assemble.js';
import { MemberName } from '../records/json-scan.js';
import { bytesOf, outsideParents, partsOf } from '../records/record-windows.js';
import {
  BASE_FIELDS,
  memberIn,
  sentIn,
  type EventBody,
  type RunEvent,
  ScanningReader,
} from '../records/run-event.js';
import type { EventLog, Place } from '../store/contract/events.js';
import { isNoId, uuidBytes, uuidText } from '../store/text.js';
import { CALL_COLUMNS, SUMMARY_COLUMNS, type Value } from './columns.js';
import { callSummariesOf, sentAtOf, summaryOf } from './run-summary.js';

/**
 * Bytes of the log that one call reads. The events of a larger record are thinned: only members that a
 * summary needs are kept.
 */
const READ_BYTES = 512 << 10;

/** A record to be summed. */
export interface DueRecord {
  readonly row: number;
  readonly isInCircle: boolean;
  /** Places of its events, in the order of the log. */
  readonly places: readonly Place[];
}

/** The values of a record's row, which survive JSON. */
export interface Summed {
  readonly row: number;
  readonly isInCircle: boolean;
  readonly isRun: boolean;
  readonly recordId: string;
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** The values in the order of SUMMARY_COLUMNS, with names as texts. */
  readonly values: readonly Value[];
  /** For a run with several calls, the values of each call by CALL_COLUMNS. */
  readonly calls: readonly (readonly Value[])[];
  /** The sender's time of each event; null if its payload is unreadable. */
  readonly sent: readonly (number | null)[];
  /** The parent event and its run; null without a parent. The run is null if the parent has none. */
  readonly parent: { readonly eventId: string; readonly run: string | null } | null;
  /** Parents that its events name and that are missing or have no run. */
  readonly awaits: readonly string[];
}

/** The run of a parent outside the record: null without a run, undefined if the event is missing. */
export type FoundParent = string | null | undefined;
/** Returns `unknown` if only the tables have the answer, which another thread reads. */
export type FindParent = (
  organisation: string,
  eventId: string,
) => Promise<{ readonly run: FoundParent } | 'unknown'>;

/** The run of an event that names or opens one. @param before only lower sequences are considered. */
export async function runInLog(
  log: Pick<EventLog, 'find'>,
  before: number,
  organisation: string,
  eventId: string,
): Promise<FoundParent> {
  const found = await log.find(organisation, uuidBytes(eventId), before);
  if (found === undefined || found.sequence >= before) return undefined;
  return isNoId(found.runId) ? null : uuidText(found.runId);
}

/** A name stays a text here; the thread with the tables gives it a number. */
const AS_TEXT = { idOf: (name: string) => name as unknown as number, nameOf: String };

export class Summer {
  readonly #reader = new ScanningReader();

  constructor(
    private readonly log: Pick<EventLog, 'read'>,
    private readonly findParent: FindParent,
  ) {}

  /**
   * @param records with at most READ_BYTES of events together, or one larger record.
   * @returns null for a record whose parents are unknown here.
   */
  async sum(records: readonly DueRecord[]): Promise<SummedOrNot[]> {
    const [first] = records;
    if (first === undefined) return [];
    if (records.length === 1 && bytesOf(first) > READ_BYTES)
      return [await this.#summed(first, await this.#thinEventsOf(first.places))];
    this.#reader.begin(await this.log.read(records.flatMap(({ places }) => places)));
    const summed: SummedOrNot[] = [];
    let index = 0;
    for (const record of records) {
      const events = record.places.map(() => this.#reader.event(index++));
      summed.push(await this.#summed(record, events));
    }
    return summed;
  }

  async #thinEventsOf(places: readonly Place[]): Promise<RunEvent<EventBody>[]> {
    const events: RunEvent<EventBody>[] = [];
    for (const part of partsOf(
      places.map((place) => ({ places: [place] })),
      READ_BYTES,
    )) {
      this.#reader.begin(await this.log.read(part.flatMap((each) => each.places)));
      for (const index of part.keys()) events.push(thin(this.#reader.event(index)));
    }
    return events;
  }

  async #summed(
    { row, isInCircle }: DueRecord,
    events: readonly RunEvent<EventBody>[],
  ): Promise<SummedOrNot> {
    const organisation = events[0]?.event.organisation ?? '';
    const runs = new Map<string, FoundParent>();
    for (const parent of outsideParents(events)) {
      if (runs.has(parent)) continue;
      const found = await this.findParent(organisation, parent);
      if (found === 'unknown') return null;
      runs.set(parent, found.run);
    }
    const run = assembleRun(events, {
      parentRunOf: (eventId) => runs.get(eventId),
      children: [],
      // A summary only records that there is a circle, not its members.
      cycle: isInCircle ? [''] : [],
    });
    const summary = summaryOf(run);
    const parent = summary.isRun ? run.metadata.parent?.event_id : undefined;
    const parentRun = parent === undefined ? undefined : runs.get(parent);
    return {
      ...{ row, isInCircle, isRun: summary.isRun, recordId: summary.recordId },
      ...{ firstSequence: summary.firstSequence, lastSequence: summary.lastSequence },
      values: SUMMARY_COLUMNS.map(({ of }) => of(summary, AS_TEXT)),
      calls: callSummariesOf(run).map((call) => CALL_COLUMNS.map(({ of }) => of(call, AS_TEXT))),
      sent: run.metadata.events
        .toSorted((a, b) => a.event.sequence - b.event.sequence)
        .map((timed) => (timed.body === undefined ? null : sentAtOf(timed))),
      parent: parent === undefined || parentRun === undefined ? null : { eventId: parent, run: parentRun },
      awaits: [...runs].flatMap(([eventId, of]) => (typeof of === 'string' ? [] : eventId)),
    };
  }
}

/** The members of each object that a summary needs. */
const ENDED = ['ending', 'status', 'error_name', 'response_model', 'usage'];
const ASKED = Object.entries({
  system_metadata: ['app_name', 'instrumentation'],
  model_instance: ['model_id', 'model_version'],
  user_identity: ['caller_id', 'caller_type'],
  target_identity: ['target_id', 'target_type'],
  inputs: [],
  artifact: ENDED,
  output: ['output_uri', ...ENDED],
  outcome: ['outcome_type'],
  feedback: ['feedback_type', 'rating_value', 'direction'],
}).map(([object, members]) => ({
  object: object as Parameters<typeof sentIn>[1],
  members: members.map((name) => new MemberName(name)),
}));

/** A copy of the event with the members that a summary needs, which does not reference the read buffer. */
function thin({ event, body }: RunEvent<EventBody>): RunEvent<EventBody> {
  if (body === undefined) return { event, body };
  const kept: Record<string, unknown> = {};
  for (const name of BASE_FIELDS)
    if (name !== 'system_metadata' && name in body) kept[name] = body[name as 'timestamp'];
  for (const { object, members } of ASKED) {
    const sent = sentIn(body, object);
    if (sent === undefined) continue;
    kept[object] = Object.fromEntries(
      members.map((name) => [name.text, memberIn(sent, name)]).filter(([, value]) => value !== undefined),
    );
  }
  return { event, body: kept as unknown as EventBody };
}

/*
 * The job of a thread is a list of numbers, and the answer is JSON: cloning an object for each event takes
 * longer.
 */

/** Null for a record whose parents are unknown in the thread. */
export type SummedOrNot = Summed | null;

/**
 * Sums records by jobs. @param run runs a job of jobsOf in another thread.
 * @param before sequences below it were added.
 */
export async function sumBy(
  run: (job: Float64Array) => Promise<string>,
  records: readonly DueRecord[],
  before: number,
): Promise<readonly SummedOrNot[]> {
  const job = [before];
  for (const { row, isInCircle, places } of records) {
    job.push(row, Number(isInCircle), places.length);
    for (const { at, size } of places) job.push(at, size);
  }
  return JSON.parse(await run(Float64Array.from(job))) as SummedOrNot[];
}

/** Runs jobs one after the other. */
export function jobsOf(log: Pick<EventLog, 'read' | 'find'>): (job: Float64Array) => Promise<string> {
  let before = 0;
  const summer = new Summer(log, async (organisation, eventId) => {
    const run = await runInLog(log, before, organisation, eventId);
    return run === null ? 'unknown' : { run };
  });
  return async (job) => {
    const numbers = job.values();
    const next = () => Number(numbers.next().value);
    before = next();
    const records: DueRecord[] = [];
    for (let row; (row = numbers.next().value) !== undefined;) {
      const isInCircle = next() === 1;
      const places = Array.from({ length: next() }, () => ({ at: next(), size: next() }));
      records.push({ row, isInCircle, places });
    }
    return JSON.stringify(await summer.sum(records));
  };
}

/* Sums records in order, in threads and in the thread that writes. */

type Sum<Record> = (part: readonly Record[]) => Promise<readonly SummedOrNot[]>;

interface Part<Record> {
  readonly records: readonly Record[];
  readonly summed: Promise<readonly SummedOrNot[]>;
  isDone: boolean;
}

/** Limits of parts that threads have, and of parts that are not written yet. */
const BEGUN = 4;
const UNWRITTEN = 8;

/**
 * Yields the records in parts. The consumer sums a part itself whenever the threads have not finished the
 * next one, so that neither waits for the other.
 * @param byThreads undefined without threads.
 */
export async function* summedParts<Record extends DueRecord>(
  records: Iterable<Record>,
  here: Sum<Record>,
  byThreads: Sum<Record> | undefined,
): AsyncGenerator<readonly [readonly Record[], readonly SummedOrNot[]]> {
  const parts = partsOf(records, READ_BYTES);
  const waiting: Part<Record>[] = [];
  /** @returns false if there is no further part. */
  const begin = (sum: Sum<Record>): boolean => {
    const next = parts.next();
    if (next.done === true) return false;
    const part: Part<Record> = { records: next.value, summed: sum(next.value), isDone: false };
    const note = () => void (part.isDone = true);
    // A rejection is handled when the part is awaited.
    part.summed.then(note, note);
    waiting.push(part);
    return true;
  };
  for (;;) {
    if (byThreads !== undefined)
      while (waiting.filter(({ isDone }) => !isDone).length < BEGUN && begin(byThreads));
    const first = waiting[0];
    if (first?.isDone !== true && waiting.length < UNWRITTEN && begin(here)) {
      await waiting.at(-1)?.summed;
      await turn();
      continue;
    }
    if (first === undefined) return;
    waiting.shift();
    yield [first.records, await first.summed];
  }
}
