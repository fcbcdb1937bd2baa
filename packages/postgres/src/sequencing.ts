/**
 * Gives committed batches their places in the order of the log. Each collector tries about once a second; the
 * one that gets the row lock on `heads` does the work, and the lock ends with its transaction or connection.
 * Committed batches are read lane by lane, without a gap, from the last one that has a place. Places follow
 * the commit time, and within a lane the number of the batch.
 */
import { bytesIn, int2Array, int4Array, int8Array, numberIn } from './binary.js';
import { type BinaryRow, type Connection, Lost, weaknessOf } from './connection.js';
import type { ClockStep, SteppingClock } from '@clinical-events/collector/clock';
import type { Sequenced } from '@clinical-events/collector/store/contract/driver';
import type { SharedGauges } from '@clinical-events/collector/store/contract/events';
import type { LogRow } from './schema.js';
import { isSealed, type SealedBatch, type SealKey } from './seal.js';
import { sql } from './sql.js';

/**
 * Thrown if a lane lacks a batch, or has one that no collector sealed: someone deleted, changed or added
 * rows. Sequencing stops.
 */
export class LaneBroken extends Error {
  override name = 'LaneBroken';
}

/**
 * Marks this collector as seen, and closes the lanes of collectors that were not seen for an hour; a
 * collector that was only paused opens another lane. Closes none if the server's clock jumped or this
 * collector was paused itself. Call it every few seconds.
 * @returns the step by which the server's clock was set, if it was set.
 */
export async function lookAfterLanes(
  connection: Pick<Connection, 'query'>,
  collectorId: string,
  clock: SteppingClock,
  gauges?: SharedGauges,
): Promise<ClockStep | undefined> {
  const asked = performance.now();
  const { rows } = await connection.query(sql('seen'), [collectorId]);
  const [isSeen, now] = rows[0] ?? [];
  const step = now ? clock.read(Number(now), asked, performance.now()) : undefined;
  if (isSeen === 't') await connection.query(sql('close_abandoned'));
  if (gauges !== undefined) await lookAtWaiting(connection, gauges);
  return step;
}

/** Updates the gauges. @returns the age of the oldest batch without a place, in milliseconds. */
export async function lookAtWaiting(
  connection: Pick<Connection, 'query'>,
  gauges: SharedGauges,
): Promise<number> {
  const [waiting = []] = (await connection.query(sql('waiting_batches'))).rows;
  const [batches = 0, oldestMs = 0, months = 0] = waiting.map(Number);
  gauges.waits(batches, oldestMs, months);
  return oldestMs;
}

const MOST_OF_A_LANE = 256;
const READ_MS = 10_000;
/** A connection, or one that is opened when it is needed. */
type Transactions = Pick<Connection, 'query'> & {
  transaction<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result>;
};

/**
 * Tries once to give every committed batch its place. On return the places are durable, and replicated if the
 * log's durability demands it.
 * @returns the new end of the log; undefined if another collector holds the lock.
 * @throws LaneBroken, Refused, Lost.
 */
export async function sequence(
  connection: Transactions,
  sealKey: SealKey,
  durability: LogRow['durability'] = 'local',
): Promise<Sequenced | undefined> {
  const sequenced = await arrange(connection, sealKey);
  if (sequenced !== undefined && durability === 'replicated') {
    const [[names, commit, messages] = []] = (await connection.query(sql('replication'))).rows;
    const weakness = weaknessOf(commit, messages);
    if (weakness !== undefined) throw new Lost(weakness);
    if (names === '') throw new Lost('synchronous_standby_names is empty: nothing is replicated');
  }
  return sequenced;
}

function arrange(transactions: Transactions, sealKey: SealKey): Promise<Sequenced | undefined> {
  return transactions.transaction(async (connection) => {
    const [head] = (await connection.query(sql('lock_head'))).rows;
    if (head === undefined) return undefined;
    const [size = 0, own = 0, bytes = 0] = head.map(Number);
    const committed = await connection.copy(sql('committed_batches', { most: MOST_OF_A_LANE }), READ_MS);
    const found = committed.map(committedIn);
    const before: Sequenced = { entries: size, ownEntries: own, bytes };
    if (found.length === 0) return before;
    assertWhole(found, sealKey);
    const after = await place(connection, found, before);
    const values = [size, after.entries, after.ownEntries, after.bytes];
    const { count } = await connection.query(sql('advance_head'), values);
    if (count !== 1) throw new LaneBroken('someone else changed the head of the log');
    return { ...after, agesMs: found.filter((each) => each.entries > 0).map(({ ageMs }) => ageMs) };
  });
}

interface CommittedBatch extends SealedBatch {
  readonly done: number;
  readonly entries: number;
  readonly own: number;
  readonly bytes: number;
  readonly closes: boolean;
  readonly ageMs: number;
}

function committedIn([lane, done, batch, entries, own, bytes, closes, ...sealed]: BinaryRow): CommittedBatch {
  const [candidates, leaves, repeats = null, seal = null, age] = sealed;
  const count = numberIn(entries);
  // The seal of a batch without entries does not cover these numbers.
  const [ownEntries, size] = count > 0 ? [numberIn(own), numberIn(bytes)] : [0, 0];
  return {
    ...{ lane: numberIn(lane), done: numberIn(done), batch: numberIn(batch), entries: count },
    ...{ own: ownEntries, bytes: size, closes: numberIn(closes) === 1 },
    ...{ candidates: numberIn(candidates), leaves: bytesIn(leaves), repeats, seal, ageMs: numberIn(age) },
  };
}

/** @throws LaneBroken */
export function assertSealed(sealKey: SealKey, sealed: SealedBatch): void {
  if (isSealed(sealKey, sealed)) return;
  const { lane, batch } = sealed;
  throw new LaneBroken(`batch ${batch} of lane ${lane} has no valid seal of a collector of this log`);
}

function assertWhole(found: readonly CommittedBatch[], sealKey: SealKey): void {
  const last = new Map<number, number>();
  for (const each of found) {
    const { lane, done, batch, entries } = each;
    const before = last.get(lane) ?? done;
    if (batch !== before + 1) throw new LaneBroken(`batch ${before + 1} of lane ${lane} is gone`);
    if (entries > 0) assertSealed(sealKey, each);
    last.set(lane, batch);
  }
}

async function place(
  connection: Connection,
  found: readonly CommittedBatch[],
  before: Sequenced,
): Promise<Sequenced> {
  let { entries, ownEntries, bytes } = before;
  const firsts: number[] = [];
  for (const each of found) {
    firsts.push(entries + 1);
    entries += each.entries;
    ownEntries += each.own;
    bytes += each.bytes;
  }
  await connection.query(sql('place_batches'), [
    int4Array(found.map(({ lane }) => lane)),
    int4Array(found.map(({ batch }) => batch)),
    int8Array(firsts),
    int2Array(found.map(({ entries: count }) => count)),
  ]);
  const closing = found.filter(({ closes }) => closes).map(({ lane }) => lane);
  if (closing.length > 0) await connection.query(sql('close_lanes'), [int4Array(closing)]);
  return { entries, ownEntries, bytes };
}
