/**
 * Quarantines rows that no collector stored: unplaced batches without a valid seal (seal.ts), ids that no
 * batch has, and places that no sequencer assigned. One statement of the collectors' role can insert any of
 * them, and then later batches are not signed, or an event cannot be stored.
 *
 * Batches that a collector sealed, and batches that have a place, are never moved. No row is deleted: one
 * transaction moves rows into the tables `quarantined_…` and appends the action that reports it to the log.
 */
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import type { Action } from '@clinical-events/collector/privacy/actions';
import type { Candidate } from '@clinical-events/collector/store/contract/events';
import { type Address } from './address.js';
import { byteaArray, bytesIn, int4Array, numberIn, uuidArray } from './binary.js';
import { Connection } from './connection.js';
import { envelopeIn } from './encrypted-row.js';
import { appendAlone } from './lane.js';
import { PostgresLogKeys, readLog } from './schema.js';
import { isSealed, type SealKey } from './seal.js';
import type { SharedKeys } from './shared-keys.js';
import { sql } from './sql.js';
import { uuidText } from '@clinical-events/collector/store/text';

export interface QuarantineOptions {
  readonly sealKey: (ledgerId: string, shared: SharedKeys, entries: number) => Promise<SealKey>;
  /** Version of this program. */
  readonly version: string;
  /** Makes one of the log's own entries. */
  readonly entry: (action: Action) => Candidate;
  readonly dryRun: boolean;
}

interface QuarantineItem {
  /** `lane`: a lane that someone removed from `open_lanes`, and that is put back. */
  readonly kind: 'batch' | 'ids' | 'place' | 'lane';
  readonly lane: number;
  readonly batch: number;
  readonly entries: number;
  /** Number of event ids that are freed. */
  readonly ids: number;
  readonly why: string;
}

export interface Quarantine {
  readonly items: QuarantineItem[];
  /** Faults that no move repairs. */
  readonly gaps: string[];
  /** The action that reports the move in the log; undefined if nothing was moved. */
  readonly action: string | undefined;
}

const READ_MS = 600_000;
const PAGE = 256;
type Key = Pick<QuarantineItem, 'lane' | 'batch'>;

interface Survey extends Omit<Quarantine, 'action'> {
  readonly batches: (Key & { readonly seal: Buffer })[];
  /** Batches that ids name and that do not exist. */
  readonly absent: Key[];
  readonly ids: (Key & { readonly eventId: Buffer; readonly organisation: number })[];
  readonly places: Key[];
  readonly fills: Key[];
  readonly reopened: number[];
}

/**
 * On return all such rows are in quarantine, unless `dryRun` is set. Run it as the owner of the tables.
 * @throws Unreachable, SchemaUnfit, Refused, Lost, and the errors of `sealKey`.
 */
export async function quarantineLog(address: Address, options: QuarantineOptions): Promise<Quarantine> {
  const connection = await Connection.open(address, 'store');
  try {
    const { ledgerId } = await readLog(connection);
    const shared = new PostgresLogKeys(connection);
    if ((await shared.sealKeyId()) === undefined) return { items: [], gaps: [], action: undefined };
    const [[size = 0] = []] = (await connection.query(sql('head'))).rows;
    const sealKey = await options.sealKey(ledgerId, shared, Number(size));
    const found = await connection.transaction(() => surveyOf(connection, sealKey));
    const { items, gaps } = found;
    if (options.dryRun || items.length === 0) return { items, gaps, action: undefined };
    const action = randomUUID();
    await connection.transaction(() => move(connection, action, found, sealKey, options));
    return { items, gaps, action };
  } finally {
    await connection.close();
  }
}

async function surveyOf(connection: Connection, sealKey: SealKey): Promise<Survey> {
  // One snapshot: an id and its batch are committed together.
  await connection.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
  await connection.query("SET LOCAL statement_timeout = '10min'");
  const found: Survey = {
    ...{ items: [], gaps: [], batches: [], absent: [], ids: [], places: [], fills: [], reopened: [] },
  };
  for (const [lane, batch] of (await connection.query(sql('foreign_places'), [], READ_MS)).rows) {
    const key = { lane: Number(lane), batch: Number(batch) };
    found.places.push(key);
    found.items.push({
      kind: 'place',
      ...key,
      entries: 0,
      ids: 0,
      why: 'no batch has this place in the log',
    });
  }
  await surveyBatches(connection, sealKey, found);
  await surveyIds(connection, found);
  return found;
}

/** Examines the unplaced batches, lane by lane, in order. */
async function surveyBatches(connection: Connection, sealKey: SealKey, found: Survey): Promise<void> {
  let lane = 0;
  let last = 0;
  /** The next number if no batch is missing. */
  let next = 1;
  /** Batches to be moved, which empty ones replace if later batches stay. */
  let leaving: Key[] = [];
  for (;;) {
    const rows = await connection.copy(sql('unplaced_after', { lane, batch: last, most: PAGE }), READ_MS);
    for (const [laneIn, batchIn, entriesIn, candidates, leaves, repeats = null, ...more] of rows) {
      const key = { lane: numberIn(laneIn), batch: numberIn(batchIn) };
      const [seal = null, committed = null] = more;
      if (key.lane !== lane) {
        leaving = [];
        next = Number((await connection.query(sql('last_placed_batch'), [key.lane])).rows[0]?.[0]) + 1;
      }
      ({ lane, batch: last } = key);
      const entries = numberIn(entriesIn);
      const sealed = { ...key, candidates: numberIn(candidates), leaves: bytesIn(leaves), repeats, seal };
      const isOurs = isSealed(sealKey, sealed);
      // A closing batch needs no seal: it is empty.
      const isEmpty = entries === 0 && seal === null && key.batch === next;
      if (!isOurs && !isEmpty) {
        found.batches.push({ ...key, seal: seal ?? Buffer.alloc(0) });
        found.items.push({
          ...{ kind: 'batch', ...key, entries },
          ids: Number((await connection.query(sql('count_ids'), [lane, last])).rows[0]?.[0]),
          why: `no collector of this log sealed it (committed at ${committed?.toString() ?? ''})`,
        });
        if (key.batch === next) {
          leaving.push(key);
          next++;
        }
        continue;
      }
      if (key.batch > next) found.gaps.push(gapText(lane, next, key.batch - 1));
      next = key.batch + 1;
      found.fills.push(...leaving.splice(0));
      if (entries > 0) await surveyLane(connection, key, found);
    }
    if (rows.length < PAGE) return;
  }
}

function gapText(lane: number, first: number, last: number): string {
  const which =
    first === last ? `batch ${first} of lane ${lane} is` : `batches ${first} to ${last} of lane ${lane} are`;
  return `${which} gone, and a collector sealed the next one: someone deleted rows`;
}

/** Reports a lane that is not in `open_lanes`, because its batches never get a place. */
async function surveyLane(connection: Connection, key: Key, found: Survey): Promise<void> {
  if (found.reopened.includes(key.lane)) return;
  if ((await connection.query(sql('is_open_lane'), [key.lane])).rows[0]?.[0] === 't') return;
  found.reopened.push(key.lane);
  const why = 'its batches wait for places, and it is not in open_lanes: it is put back';
  found.items.push({ kind: 'lane', ...key, entries: 0, ids: 0, why });
}

async function surveyIds(connection: Connection, found: Survey): Promise<void> {
  const going = new Set(found.batches.map(({ lane, batch }) => `${lane} ${batch}`));
  for (const [laneIn, batchIn, , has] of (await connection.query(sql('crowded_batches'), [], READ_MS)).rows) {
    const key = { lane: Number(laneIn), batch: Number(batchIn) };
    if (going.has(`${key.lane} ${key.batch}`)) continue;
    const isThere = has !== null;
    if (!isThere) found.absent.push(key);
    const values = [key.lane, key.batch];
    const envelopes = new Map<number, string>();
    for (const [ord, envelope] of isThere
      ? (await connection.query(sql('envelopes_of_batch'), values)).rows
      : []) {
      const read = envelopeIn(Buffer.from(envelope ?? '', 'hex'));
      if (read !== undefined)
        envelopes.set(Number(ord), `${uuidText(Buffer.from(read.eventId))} ${read.organisation}`);
    }
    const foreign = (await connection.query(sql('ids_of_batch'), values)).rows.filter(
      ([id, , ord, name]) => envelopes.get(Number(ord)) !== `${id ?? ''} ${name ?? ''}`,
    );
    for (const [id, organisation] of foreign) {
      const eventId = Buffer.from((id ?? '').replaceAll('-', ''), 'hex');
      found.ids.push({ ...key, eventId, organisation: Number(organisation) });
    }
    if (foreign.length === 0) continue;
    const why = isThere ? 'the batch has no such event' : 'no such batch exists';
    found.items.push({ kind: 'ids', ...key, entries: 0, ids: foreign.length, why });
  }
}

async function move(
  connection: Connection,
  action: string,
  { batches, absent, ids, places, fills, reopened, items }: Survey,
  sealKey: SealKey,
  { entry, version }: QuarantineOptions,
): Promise<void> {
  await connection.query("SET LOCAL statement_timeout = '10min'");
  await connection.query(sql('hold_head'));
  const of = (keys: readonly Key[]) => [
    int4Array(keys.map(({ lane }) => lane)),
    int4Array(keys.map(({ batch }) => batch)),
  ];
  const run = async (statement: string, values: readonly (string | Buffer)[]) =>
    (await connection.query(sql(statement), values, READ_MS)).count;
  await run('move_places', [action, ...of(places)]);
  const seals = byteaArray(batches.map(({ seal }) => seal));
  const count = await run('move_batches', [action, ...of(batches), seals]);
  // A batch that got a place since the survey must not be moved.
  if (count !== batches.length) throw new Error('the log has changed: nothing was moved; try again');
  await run('move_events', [action, ...of([...batches, ...absent])]);
  let freed = await run('move_ids_of_batches', [action, ...of(batches)]);
  freed += await run('move_ids', [
    ...[action, uuidArray(ids.map(({ eventId }) => eventId))],
    ...[int4Array(ids.map(({ organisation }) => organisation)), ...of(ids)],
  ]);
  await run('fill_batches', of(fills));
  await run('reopen_lanes', [int4Array(reopened)]);
  const entries = items.reduce((sum, item) => sum + item.entries, 0);
  const said = { action, does: 'quarantine', batches: count, entries, ids: freed } as const;
  await append(connection, entry(said), sealKey, version);
}

/** Appends an action in a separate lane, as a collector does. */
async function append(
  connection: Connection,
  entry: Candidate,
  sealKey: SealKey,
  version: string,
): Promise<void> {
  const collector = randomUUID();
  await connection.query(sql('register_collector'), [collector, os.hostname(), process.pid, version]);
  const [organisation] = (await connection.query(sql('organisation_id'), [entry.organisation])).rows;
  const lane = await appendAlone(connection, collector, sealKey, entry, Number(organisation?.[0]));
  const [[number = 0] = []] = (await connection.query(sql('next_action_number'))).rows;
  await connection.query(sql('add_action'), [Number(number), lane]);
}
