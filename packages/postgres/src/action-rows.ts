/**
 * Actions of a log in a database (privacy/actions.ts): entries in batches of their own, which the table `actions` numbers in
 * their order. Who adds one gives it the number behind the last that it knows: so of two collectors that would act at a
 * time one is refused, and none acts without knowing all that was done before.
 *
 * A collector destroys keys by what it finds there. So it believes only what a collector has sealed (seal.ts).
 */
import { encodeLeaf, ENTRY_KINDS, LEAF_BYTES, SALT_BYTES } from '@clinical-events/protocol';
import { Actions } from '@clinical-events/collector/privacy/actions';
import type { TakenKeys } from '@clinical-events/collector/privacy/payload-keys';
import { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import {
  type HoldRecords,
  KEPT_ANSWER_MS,
  type Requests,
} from '@clinical-events/collector/store/contract/requests';
import { StoreDamaged } from '@clinical-events/collector/store/contract/events';
import { bytesIn, bytesOf, numberIn, sha256 } from './binary.js';
import type { ReadingConnection } from './connection.js';
import { commitmentIn, envelopeIn, type KeyPlace, keyPlaceIn, PLACE_BYTES } from './encrypted-row.js';
import { isSealed, type SealKey } from './seal.js';
import { groupsOf, list, type Span, spanIn, spansOf } from './spans.js';

/** Those that have their place, behind the last that is known. See "Plans" in connection.ts. */
const NEWER = `
SELECT a.number, s.first_sequence, e.envelope, e.salted, a.lane, a.batch, b.candidates, b.leaves, b.repeats, b.seal
FROM (SELECT * FROM actions WHERE number > $1 AND number <= (SELECT max(number) FROM actions)) a
CROSS JOIN LATERAL (SELECT * FROM sequenced WHERE lane = a.lane AND batch = a.batch OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM batches WHERE lane = a.lane AND batch = a.batch OFFSET 0) b
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = a.lane AND batch = a.batch OFFSET 0) e
WHERE s.entries = 1 AND s.first_sequence <= (SELECT size FROM heads) ORDER BY a.number, e.ord`;

type Row = readonly (string | null)[];

/** The actions of a log, as they are known to one process. */
export class ActionRows {
  readonly actions = new Actions();
  /** The number of the last that is known. */
  known = 0;
  #refreshing: Promise<void> | undefined;

  /** @param sealKey undefined for a reader, which has none, destroys no key, and passes over what is not whole. */
  constructor(
    private readonly connection: Pick<ReadingConnection, 'query'>,
    private readonly sealKey?: SealKey,
  ) {}

  /**
   * On return all that have their place by now are known.
   * @throws StoreDamaged for a collector, where one is not what a collector has stored, or stands in another order.
   */
  refresh(): Promise<void> {
    return (this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = undefined)));
  }

  async #refresh(): Promise<void> {
    for (const row of (await this.connection.query(NEWER, [this.known])).rows) {
      const number = Number(row[0]);
      const sequence = Number(row[1]);
      const action = actionIn(row);
      const isNext = number === this.known + 1 && sequence > (this.actions.logged.at(-1)?.sequence ?? 0);
      if (this.sealKey !== undefined && !(isNext && action !== undefined && this.#isBelieved(row)))
        throw new StoreDamaged(
          { where: 'the database', sequence },
          'the table actions does not say what the collectors have stored',
        );
      if (action !== undefined) this.actions.add(sequence, action.receivedAt, action.body);
      this.known = number;
    }
  }

  #isBelieved([, sequence, , , lane, batch, candidates, leaves, repeats, seal]: Row): boolean {
    if (this.sealKey === undefined || Number(sequence) <= this.sealKey.lostBefore) return true;
    const [sealed, others] = [seal, repeats].map((each) => (typeof each === 'string' ? bytesOf(each) : null));
    return isSealed(this.sealKey, {
      ...{ lane: Number(lane), batch: Number(batch), candidates: Number(candidates) },
      ...{ leaves: bytesOf(leaves ?? ''), repeats: others ?? null, seal: sealed ?? null },
    });
  }
}

/** Undefined where it is no action, is not alone in its batch, or not what its leaf says. */
function actionIn(row: Row): { readonly receivedAt: number; readonly body: Buffer } | undefined {
  const [envelope, salted, leaf] = [row[2], row[3], row[7]].map((each) => bytesOf(each ?? ''));
  if (envelope === undefined || salted === undefined || leaf?.length !== LEAF_BYTES) return undefined;
  const comesTo = Buffer.concat([sha256(envelope), sha256(salted)]);
  if (!leaf.subarray(-comesTo.length).equals(comesTo)) return undefined;
  const { kind, receivedAt = 0 } = envelopeIn(envelope) ?? {};
  return kind === ENTRY_KINDS.lifecycleAction ? { receivedAt, body: salted.subarray(SALT_BYTES) } : undefined;
}

const LAY = 'INSERT INTO requests (action, request) VALUES ($1::uuid, $2) ON CONFLICT DO NOTHING';
const WAITING = 'SELECT action, request FROM requests WHERE request IS NOT NULL ORDER BY asked_at, action';
const BEGIN = `
UPDATE requests SET begun_at = coalesce(begun_at, clock_timestamp())
WHERE action = $1::uuid AND request IS NOT NULL`;
// Who asks may not read requests.
const WITHDRAW = 'DELETE FROM requests WHERE action = $1::uuid AND begun_at IS NULL AND answer IS NULL';
const TAKE = 'UPDATE requests SET request = NULL WHERE action = $1::uuid';
const ANSWER = `
INSERT INTO requests (action, answer, answered_at) VALUES ($1::uuid, $2, clock_timestamp())
ON CONFLICT (action) DO UPDATE SET answer = excluded.answer, answered_at = excluded.answered_at`;
const CLEAR = `
DELETE FROM requests WHERE request IS NULL AND answered_at < clock_timestamp() - $1 * interval '1 millisecond'`;

/** What commands ask of a log in a database. */
export class RequestRows implements Requests {
  constructor(private readonly connection: Pick<ReadingConnection, 'query'>) {}

  async lay(id: string, request: string): Promise<void> {
    await this.connection.query(LAY, [id, request]);
  }

  async waiting(): Promise<{ id: string; request: string }[]> {
    await this.connection.query(CLEAR, [KEPT_ANSWER_MS]);
    const { rows } = await this.connection.query(WAITING);
    return rows.map(([id, request]) => ({ id: id ?? '', request: request ?? '' }));
  }

  async begin(id: string): Promise<boolean> {
    return (await this.connection.query(BEGIN, [id])).count > 0;
  }

  async withdraw(id: string): Promise<boolean> {
    return (await this.connection.query(WITHDRAW, [id])).count > 0;
  }

  async take(id: string): Promise<void> {
    await this.connection.query(TAKE, [id]);
  }

  async answer(id: string, answer: string): Promise<void> {
    await this.connection.query(ANSWER, [id, answer]);
  }

  async answerTo(id: string): Promise<string | undefined> {
    const { rows } = await this.connection.query('SELECT answer FROM requests WHERE action = $1::uuid', [id]);
    return rows[0]?.[0] ?? undefined;
  }
}

/** What legal holds hold. */
export class HoldRecordRows implements HoldRecords {
  constructor(private readonly connection: Pick<ReadingConnection, 'query'>) {}

  async put(action: string, record: string): Promise<void> {
    await this.connection.query('INSERT INTO hold_records (action, record) VALUES ($1::uuid, $2)', [
      action,
      record,
    ]);
  }

  async get(action: string): Promise<string | undefined> {
    const { rows } = await this.connection.query('SELECT record FROM hold_records WHERE action = $1::uuid', [
      action,
    ]);
    return rows[0]?.[0] ?? undefined;
  }

  async remove(action: string): Promise<void> {
    await this.connection.query('DELETE FROM hold_records WHERE action = $1::uuid', [action]);
  }
}

const keptOf = (group: readonly Span[], isWhole: boolean) => `
SELECT s.n, e.ord, e.payload_state, e.envelope, ${isWhole ? 'e.salted' : `substring(e.salted FROM 1 FOR ${PLACE_BYTES})`}
FROM unnest(${list(group, 'lane')}::int[], ${list(group, 'batch')}::int[]) WITH ORDINALITY AS s (lane, batch, n)
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = s.lane AND batch = s.batch OFFSET 0) e ORDER BY s.n, e.ord`;

/** An event as far as it stays when it is erased. */
export interface KeptRow {
  readonly sequence: number;
  readonly lane: number;
  readonly batch: number;
  readonly ord: number;
  readonly envelope: Buffer;
  /**
   * Where the key of its payload is, as its row says; undefined where it is not encrypted, was taken out, or is not the one
   * that its leaf is of.
   */
  readonly key: KeyPlace | undefined;
  /** What the row has of its payload: the beginning, unless all of it was asked for. */
  readonly row: Buffer | null;
}

/** Of the log the events of a set, in its order. */
export async function* keptRows(
  connection: Pick<ReadingConnection, 'copy'>,
  sequences: SequenceSet,
  isWhole = false,
): AsyncGenerator<KeptRow> {
  let behind = 0;
  for (const { first, end } of sequences.windows(MOST_BETWEEN)) {
    for (let next = Math.max(first, behind); next < end; next = behind) {
      const spans = (await connection.copy(spansOf(next, end - 1))).map(spanIn);
      const last = spans.at(-1);
      behind = last === undefined ? end : last.first + last.entries;
      const wanted = spans.filter((span) => sequences.meets(span.first, span.first + span.entries));
      for (const group of groupsOf(wanted)) {
        const counts = new Map<number, number>();
        for (const [number, ord, state, bytes, row = null] of await connection.copy(keptOf(group, isWhole))) {
          const n = numberIn(number);
          const at = counts.get(n) ?? 0;
          counts.set(n, at + 1);
          const { first: from = 0, lane = 0, batch = 0, leaves } = group[n - 1] ?? {};
          const sequence = from + at;
          if (!sequences.has(sequence)) continue;
          const isEncrypted = state != null && numberIn(state) === 1;
          const envelope = bytesIn(bytes);
          const leaf = leaves?.subarray(at * LEAF_BYTES, (at + 1) * LEAF_BYTES);
          const key = isEncrypted && row && isOfLeaf(leaf, envelope, row) ? keyPlaceIn(row) : undefined;
          yield { sequence, lane, batch, ord: numberIn(ord), envelope, key, row };
        }
      }
    }
  }
}

/** Whether a row is the one that has its place: else another event would be meant than was asked for. */
function isOfLeaf(leaf: Buffer | undefined, envelope: Buffer, row: Buffer): boolean {
  const expected = Buffer.alloc(LEAF_BYTES);
  encodeLeaf(expected, 0, envelope, sha256(envelope), commitmentIn(row));
  return leaf?.equals(expected) === true;
}

/** An encrypted row of an event. */
export interface EncryptedRow {
  readonly organisation: string;
  readonly envelope: Buffer;
  readonly key: KeyPlace;
  /** What `KeptRow` has of it. */
  readonly row: Buffer;
}

/**
 * By what keys events are encrypted, as their rows say, one for each bucket and organisation; those that are not are left
 * out.
 * @param isMeant leaves out more: given whole rows where that is asked for.
 */
export async function keysOf(
  connection: Pick<ReadingConnection, 'copy'>,
  sequences: SequenceSet,
  isMeant: (row: EncryptedRow) => boolean,
  isWhole = false,
): Promise<TakenKeys[]> {
  const keys = new Map<
    string,
    { tag: number; organisation: string; sequences: number[]; places: number[] }
  >();
  for await (const { sequence, envelope, key, row } of keptRows(connection, sequences, isWhole)) {
    const organisation = envelopeIn(envelope)?.organisation;
    if (key === undefined || row === null || organisation === undefined) continue;
    if (!isMeant({ organisation, envelope, key, row })) continue;
    const name = `${key.tag} ${organisation}`;
    const known = keys.get(name) ?? { tag: key.tag, organisation, sequences: [], places: [] };
    keys.set(name, known);
    known.sequences.push(sequence);
    known.places.push(key.place);
  }
  return [...keys.values()].map(({ tag, organisation, ...of }) => ({
    ...{ tag, organisation, sequences: SequenceSet.of(of.sequences), places: SequenceSet.of(of.places) },
  }));
}

/** Stretches that have less than this between them are passed together. */
const MOST_BETWEEN = 4096;
