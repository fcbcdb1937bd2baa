/**
 * Actions of a log in a database (privacy/actions.ts): entries in separate batches, which the table `actions`
 * numbers in order. A collector that adds one gives it the number after the last that it knows. So if two
 * collectors act at the same time, one of them is refused, and each knows all earlier actions.
 *
 * A collector destroys keys by these rows, so it accepts only rows that a collector sealed (seal.ts).
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
import { groupsOf, rowsOf, spansFrom } from './spans.js';
import { sql } from './sql.js';

type Row = readonly (string | null)[];

/** The actions of a log that one process knows. */
export class ActionRows {
  readonly actions = new Actions();
  /** The number of the last known action. */
  known = 0;
  #refreshing: Promise<void> | undefined;

  /** @param sealKey undefined for a reader, which destroys no key and skips an action that is not intact. */
  constructor(
    private readonly connection: Pick<ReadingConnection, 'query'>,
    private readonly sealKey?: SealKey,
  ) {}

  /**
   * On return all actions that have a place are known.
   * @throws StoreDamaged if a collector reads an action that no collector stored, or a wrong order.
   */
  refresh(): Promise<void> {
    return (this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = undefined)));
  }

  async #refresh(): Promise<void> {
    for (const row of (await this.connection.query(sql('newer_actions'), [this.known])).rows) {
      const number = Number(row[0]);
      const sequence = Number(row[1]);
      const action = actionIn(row);
      const isNext = number === this.known + 1 && sequence > (this.actions.logged.at(-1)?.sequence ?? 0);
      if (this.sealKey !== undefined && !(isNext && action !== undefined && this.#isBelieved(row)))
        throw new StoreDamaged(
          { where: 'the database', sequence },
          'the table actions is not as the collectors wrote it',
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

/** Returns undefined if the row is not an action, is not alone in its batch, or does not match its leaf. */
function actionIn(row: Row): { readonly receivedAt: number; readonly body: Buffer } | undefined {
  const [envelope, salted, leaf] = [row[2], row[3], row[7]].map((each) => bytesOf(each ?? ''));
  if (envelope === undefined || salted === undefined || leaf?.length !== LEAF_BYTES) return undefined;
  const comesTo = Buffer.concat([sha256(envelope), sha256(salted)]);
  if (!leaf.subarray(-comesTo.length).equals(comesTo)) return undefined;
  const { kind, receivedAt = 0 } = envelopeIn(envelope) ?? {};
  return kind === ENTRY_KINDS.lifecycleAction ? { receivedAt, body: salted.subarray(SALT_BYTES) } : undefined;
}

/** The requests of commands to the collectors of a log. */
export class RequestRows implements Requests {
  constructor(private readonly connection: Pick<ReadingConnection, 'query'>) {}

  async lay(id: string, request: string): Promise<void> {
    await this.connection.query(sql('lay_request'), [id, request]);
  }

  async waiting(): Promise<{ id: string; request: string }[]> {
    await this.connection.query(sql('clear_requests'), [KEPT_ANSWER_MS]);
    const { rows } = await this.connection.query(sql('waiting_requests'));
    return rows.map(([id, request]) => ({ id: id ?? '', request: request ?? '' }));
  }

  async begin(id: string): Promise<boolean> {
    return (await this.connection.query(sql('begin_request'), [id])).count > 0;
  }

  async withdraw(id: string): Promise<boolean> {
    return (await this.connection.query(sql('withdraw_request'), [id])).count > 0;
  }

  async take(id: string): Promise<void> {
    await this.connection.query(sql('take_request'), [id]);
  }

  async answer(id: string, answer: string): Promise<void> {
    await this.connection.query(sql('answer_request'), [id, answer]);
  }

  async answerTo(id: string): Promise<string | undefined> {
    const { rows } = await this.connection.query(sql('answer_to_request'), [id]);
    return rows[0]?.[0] ?? undefined;
  }
}

/** The records of legal holds. */
export class HoldRecordRows implements HoldRecords {
  constructor(private readonly connection: Pick<ReadingConnection, 'query'>) {}

  async put(action: string, record: string): Promise<void> {
    await this.connection.query(sql('put_hold_record'), [action, record]);
  }

  async get(action: string): Promise<string | undefined> {
    const { rows } = await this.connection.query(sql('hold_record'), [action]);
    return rows[0]?.[0] ?? undefined;
  }

  async remove(action: string): Promise<void> {
    await this.connection.query(sql('remove_hold_record'), [action]);
  }
}

/** The parts of an event that remain after its erasure. */
export interface KeptRow {
  readonly sequence: number;
  readonly lane: number;
  readonly batch: number;
  readonly ord: number;
  readonly envelope: Buffer;
  /** Undefined if the payload is not encrypted or was removed, or the row does not match its leaf. */
  readonly key: KeyPlace | undefined;
  /** The stored payload: its header, unless whole rows were requested. */
  readonly row: Buffer | null;
}

/** The events of a set, in the order of the log. */
export async function* keptRows(
  connection: Pick<ReadingConnection, 'copy'>,
  sequences: SequenceSet,
  isWhole = false,
): AsyncGenerator<KeptRow> {
  let behind = 0;
  for (const { first, end } of sequences.windows(MOST_BETWEEN)) {
    for (let next = Math.max(first, behind); next < end; next = behind) {
      const spans = await spansFrom(connection, next, end - 1);
      const last = spans.at(-1);
      behind = last === undefined ? end : last.first + last.entries;
      const wanted = spans.filter((span) => sequences.meets(span.first, span.first + span.entries));
      for (const group of groupsOf(wanted)) {
        const counts = new Map<number, number>();
        const rows = await (isWhole ? rowsOf(connection, group) : rowsOf(connection, group, PLACE_BYTES));
        for (const [number, ord, state, bytes, row = null] of rows) {
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

/** Whether a row matches the leaf of its place; otherwise it belongs to another event. */
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
  /** See `KeptRow`. */
  readonly row: Buffer;
}

/**
 * The keys that encrypt events, by bucket and organisation. Events without a key are left out.
 * @param isMeant leaves out further rows. @param isWhole whether `isMeant` gets whole rows.
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

/** Ranges with a smaller gap between them are read together. */
const MOST_BETWEEN = 4096;
