/**
 * Moves what no collector has stored out of the way of a log in a database: batches without a place whose seal is not one
 * of the log's (seal.ts), ids that no batch has, and places that no sequencer has given. Any of them can be put there by one
 * statement of the collectors' role, and keeps everything behind it from being signed, or an event from being stored.
 *
 * What a collector has sealed is never moved, however late it is, nor what has its place in the log. Nothing is deleted: the
 * rows go into the tables `quarantined_…`, in one transaction with the action that says so in the log.
 */
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import type { Action } from '@clinical-events/collector/privacy/actions';
import type { Candidate } from '@clinical-events/collector/store/contract/events';
import { type Address } from './address.js';
import { byteaArray, bytesIn, int4Array, numberIn, uuidArray } from './binary.js';
import { Connection } from './connection.js';
import { envelopeIn } from './encrypted-row.js';
import { APPEND, OPEN, parametersOf } from './lane.js';
import { ACTION, ORGANISATION, REGISTER } from './postgres-store.js';
import { PostgresLogKeys, readLog } from './schema.js';
import { isSealed, type SealKey } from './seal.js';
import type { SharedKeys } from './shared-keys.js';
import { IS_PLACE } from './sequencing.js';
import { uuidText } from '@clinical-events/collector/store/text';

export interface QuarantineOptions {
  readonly sealKey: (ledgerId: string, shared: SharedKeys, entries: number) => Promise<SealKey>;
  /** Of this program. */
  readonly version: string;
  /** An entry of the log's own. */
  readonly entry: (action: Action) => Candidate;
  readonly dryRun: boolean;
}

interface QuarantineItem {
  /** `lane`: one that was taken out of those that are looked at, and is put back. */
  readonly kind: 'batch' | 'ids' | 'place' | 'lane';
  readonly lane: number;
  readonly batch: number;
  readonly entries: number;
  /** Ids of events that are freed. */
  readonly ids: number;
  readonly why: string;
}

export interface Quarantine {
  readonly items: QuarantineItem[];
  /** What is wrong besides, and is not made good by moving anything. */
  readonly gaps: string[];
  /** By which the log says what was moved; undefined where nothing was. */
  readonly action: string | undefined;
}

const READ_MS = 600_000;
const PAGE = 256;
const PLACED = `EXISTS (SELECT 1 FROM sequenced s WHERE s.lane = b.lane AND s.batch = b.batch AND ${IS_PLACE})`;
/** That cover no number of the log: to take one away takes nothing from what has its place. */
const IS_FOREIGN_PLACE = `(s.entries = 0 OR s.first_sequence + s.entries - 1 > (SELECT size FROM heads))
  AND (${IS_PLACE}) IS NOT TRUE`;
const FOREIGN_PLACES = `SELECT s.lane, s.batch FROM sequenced s WHERE ${IS_FOREIGN_PLACE} ORDER BY 1, 2`;

/** Of COPY, which takes no parameters. */
const waitingAfter = (lane: number, batch: number) => `
SELECT b.lane, b.batch, b.entries, b.candidates, b.leaves, b.repeats, b.seal,
  convert_to(b.committed_at::text, 'UTF8')
FROM batches b WHERE (b.lane, b.batch) > (${lane}, ${batch}) AND NOT ${PLACED} ORDER BY b.lane, b.batch LIMIT ${PAGE}`;
const DONE = `SELECT coalesce(max(b.batch), 0) FROM batches b WHERE b.lane = $1 AND ${PLACED}`;
const IS_OPEN = 'SELECT EXISTS (SELECT 1 FROM open_lanes WHERE lane = $1)';
const COUNT_IDS = 'SELECT count(*) FROM event_ids WHERE lane = $1 AND batch = $2';
/** Batches that more ids say to be in than they have entries, or that are not there. */
export const CROWDED = `
SELECT k.lane, k.batch, count(*), max(b.entries) FROM event_ids k LEFT JOIN batches b USING (lane, batch)
GROUP BY k.lane, k.batch HAVING count(*) > coalesce(max(b.entries), 0) ORDER BY 1, 2`;
const IDS = `
SELECT k.event_id::text, k.organisation_id, k.ord, o.name FROM event_ids k
LEFT JOIN organisations o USING (organisation_id) WHERE k.lane = $1 AND k.batch = $2`;
const ENVELOPES = "SELECT ord, encode(envelope, 'hex') FROM events WHERE lane = $1 AND batch = $2";

const moved = (from: string, to: string, where: string) => `
WITH gone AS (DELETE FROM ${from} AS ${from[0] ?? ''} WHERE ${where} RETURNING ${from[0] ?? ''}.*)
INSERT INTO ${to} SELECT $1::uuid, gone.* FROM gone`;
const OF_BATCHES = '(lane, batch) IN (SELECT * FROM unnest($2::int[], $3::int[]))';
const MOVE_PLACES = moved('sequenced', 'quarantined_places', `${OF_BATCHES} AND ${IS_FOREIGN_PLACE}`);
/** With their seals: what has come under such a number since is another one. */
const MOVE_BATCHES = moved(
  'batches',
  'quarantined_batches',
  `(lane, batch, coalesce(seal, '')) IN (SELECT * FROM unnest($2::int[], $3::int[], $4::bytea[])) AND NOT ${PLACED}`,
);
const MOVE_EVENTS = moved(
  'events',
  'quarantined_events',
  `${OF_BATCHES} AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.lane = e.lane AND b.batch = e.batch)`,
);
const MOVE_IDS_OF = moved('event_ids', 'quarantined_ids', OF_BATCHES);
const MOVE_IDS = moved(
  'event_ids',
  'quarantined_ids',
  `(event_id, organisation_id, lane, batch) IN (SELECT * FROM unnest($2::uuid[], $3::int[], $4::int[], $5::int[]))`,
);
/** Empty, in place of one that others of its lane follow: these are found by counting. */
const FILL = `
INSERT INTO batches (lane, batch, candidates, entries, leaves)
SELECT lane, batch, 0, 0, '' FROM unnest($1::int[], $2::int[]) AS t (lane, batch)`;
const REOPEN = 'INSERT INTO open_lanes SELECT unnest($1::int[]) ON CONFLICT DO NOTHING';

type Key = Pick<QuarantineItem, 'lane' | 'batch'>;

interface Survey extends Omit<Quarantine, 'action'> {
  readonly batches: (Key & { readonly seal: Buffer })[];
  /** Batches that events or ids name and that are not there. */
  readonly absent: Key[];
  readonly ids: (Key & { readonly eventId: Buffer; readonly organisation: number })[];
  readonly places: Key[];
  readonly fills: Key[];
  readonly reopened: number[];
}

/**
 * On return what no collector has stored is moved, unless that is only to be said. To be run as the owner of the tables.
 * @throws Unreachable, SchemaUnfit, Refused, Lost, whatever `sealKey` throws.
 */
export async function quarantineLog(address: Address, options: QuarantineOptions): Promise<Quarantine> {
  const connection = await Connection.open(address, 'store');
  try {
    const { ledgerId } = await readLog(connection);
    const shared = new PostgresLogKeys(connection);
    if ((await shared.sealKeyId()) === undefined) return { items: [], gaps: [], action: undefined };
    const [[size = 0] = []] = (await connection.query('SELECT size FROM heads')).rows;
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
  // All of one moment: an id and its batch are committed together.
  await connection.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
  await connection.query("SET LOCAL statement_timeout = '10min'");
  const found: Survey = {
    ...{ items: [], gaps: [], batches: [], absent: [], ids: [], places: [], fills: [], reopened: [] },
  };
  for (const [lane, batch] of (await connection.query(FOREIGN_PLACES, [], READ_MS)).rows) {
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

/** One lane after the other, in the order of its batches. */
async function surveyBatches(connection: Connection, sealKey: SealKey, found: Survey): Promise<void> {
  let lane = 0;
  let last = 0;
  /** The number that comes next where no batch is missing, and those of it that go and may have to be filled. */
  let next = 1;
  let leaving: Key[] = [];
  for (;;) {
    const rows = await connection.copy(waitingAfter(lane, last), READ_MS);
    for (const [laneIn, batchIn, entriesIn, candidates, leaves, repeats = null, ...more] of rows) {
      const key = { lane: numberIn(laneIn), batch: numberIn(batchIn) };
      const [seal = null, committed = null] = more;
      if (key.lane !== lane) {
        leaving = [];
        next = Number((await connection.query(DONE, [key.lane])).rows[0]?.[0]) + 1;
      }
      ({ lane, batch: last } = key);
      const entries = numberIn(entriesIn);
      const sealed = { ...key, candidates: numberIn(candidates), leaves: bytesIn(leaves), repeats, seal };
      const isOurs = isSealed(sealKey, sealed);
      // Who closes a lane that is in doubt, or abandoned, need not seal: it holds nothing.
      const isEmpty = entries === 0 && seal === null && key.batch === next;
      if (!isOurs && !isEmpty) {
        found.batches.push({ ...key, seal: seal ?? Buffer.alloc(0) });
        found.items.push({
          ...{ kind: 'batch', ...key, entries },
          ids: Number((await connection.query(COUNT_IDS, [lane, last])).rows[0]?.[0]),
          why: `no collector of this log has sealed it (committed at ${committed?.toString() ?? ''})`,
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
  return `${which} gone, and a collector has sealed the one behind: somebody has deleted rows`;
}

/** Batches of a lane that is not among the open ones get no place, ever. */
async function surveyLane(connection: Connection, key: Key, found: Survey): Promise<void> {
  if (found.reopened.includes(key.lane)) return;
  if ((await connection.query(IS_OPEN, [key.lane])).rows[0]?.[0] === 't') return;
  found.reopened.push(key.lane);
  const why = 'its batches wait for their places, and it is not among the open lanes: it is put back there';
  found.items.push({ kind: 'lane', ...key, entries: 0, ids: 0, why });
}

async function surveyIds(connection: Connection, found: Survey): Promise<void> {
  const going = new Set(found.batches.map(({ lane, batch }) => `${lane} ${batch}`));
  for (const [laneIn, batchIn, , has] of (await connection.query(CROWDED, [], READ_MS)).rows) {
    const key = { lane: Number(laneIn), batch: Number(batchIn) };
    if (going.has(`${key.lane} ${key.batch}`)) continue;
    const isThere = has !== null;
    if (!isThere) found.absent.push(key);
    const values = [key.lane, key.batch];
    const envelopes = new Map<number, string>();
    for (const [ord, envelope] of isThere ? (await connection.query(ENVELOPES, values)).rows : []) {
      const read = envelopeIn(Buffer.from(envelope ?? '', 'hex'));
      if (read !== undefined)
        envelopes.set(Number(ord), `${uuidText(Buffer.from(read.eventId))} ${read.organisation}`);
    }
    const foreign = (await connection.query(IDS, values)).rows.filter(
      ([id, , ord, name]) => envelopes.get(Number(ord)) !== `${id ?? ''} ${name ?? ''}`,
    );
    for (const [id, organisation] of foreign) {
      const eventId = Buffer.from((id ?? '').replaceAll('-', ''), 'hex');
      found.ids.push({ ...key, eventId, organisation: Number(organisation) });
    }
    if (foreign.length === 0) continue;
    const why = isThere ? 'the batch has no such event' : 'no such batch is there';
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
  // No place is given meanwhile.
  await connection.query('SELECT size FROM heads FOR UPDATE');
  const of = (keys: readonly Key[]) => [
    int4Array(keys.map(({ lane }) => lane)),
    int4Array(keys.map(({ batch }) => batch)),
  ];
  const run = async (sql: string, values: readonly (string | Buffer)[]) =>
    (await connection.query(sql, values, READ_MS)).count;
  await run(MOVE_PLACES, [action, ...of(places)]);
  const seals = byteaArray(batches.map(({ seal }) => seal));
  const count = await run(MOVE_BATCHES, [action, ...of(batches), seals]);
  // Otherwise one of them has got a place since: then nothing of it may be taken away.
  if (count !== batches.length)
    throw new Error('the log has changed meanwhile: nothing was moved; try again');
  await run(MOVE_EVENTS, [action, ...of([...batches, ...absent])]);
  let freed = await run(MOVE_IDS_OF, [action, ...of(batches)]);
  freed += await run(MOVE_IDS, [
    ...[action, uuidArray(ids.map(({ eventId }) => eventId))],
    ...[int4Array(ids.map(({ organisation }) => organisation)), ...of(ids)],
  ]);
  await run(FILL, of(fills));
  await run(REOPEN, [int4Array(reopened)]);
  const entries = items.reduce((sum, item) => sum + item.entries, 0);
  const said = { action, does: 'quarantine', batches: count, entries, ids: freed } as const;
  await append(connection, entry(said), sealKey, version);
}

/** As a collector appends an action: in a lane of its own. */
async function append(
  connection: Connection,
  entry: Candidate,
  sealKey: SealKey,
  version: string,
): Promise<void> {
  const collector = randomUUID();
  await connection.query(REGISTER, [collector, os.hostname(), process.pid, version]);
  const [organisation] = (await connection.query(ORGANISATION, [entry.organisation])).rows;
  const [drawn] = (await connection.query(OPEN, [collector])).rows;
  if (drawn === undefined) throw new Error('no lanes are left; see collector store maintain');
  const lane = Number(drawn[0]);
  await connection.query(APPEND, parametersOf(lane, sealKey, entry, Number(organisation?.[0])));
  const [[number = 0] = []] = (await connection.query('SELECT coalesce(max(number), 0) + 1 FROM actions'))
    .rows;
  await connection.query(ACTION, [Number(number), lane]);
}
