/**
 * Reads the entries of a log in a database, in order (EntryLog and Committed of the collector's
 * store/contract).
 */
import { decodeEnvelope, LEAF_BYTES, SALT_BYTES } from '@clinical-events/protocol';
import type { Sequenced } from '@clinical-events/collector/store/contract/driver';
import {
  BEGINNING,
  type Committed,
  type CommittedEntry,
  type Cursor,
  type EntryLog,
  type FoundEntries,
  type PayloadState,
  type SharedCommits,
  type SharedGauges,
  type SoughtId,
  StoreDamaged,
  type StoredEntry,
} from '@clinical-events/collector/store/contract/events';
import { describeStep, SteppingClock } from '@clinical-events/collector/clock';
import { encodedLeafHash } from '@clinical-events/collector/tree/merkle';
import { isNoId, uuidText } from '@clinical-events/collector/store/text';
import type { Address } from './address.js';
import { numberIn, sha256 } from './binary.js';
import { commitmentIn, openRow } from './encrypted-row.js';
import type { Actions } from '@clinical-events/collector/privacy/actions';
import type { StoredKeys } from '@clinical-events/collector/privacy/stored-keys';
import type { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import { ActionRows } from './action-rows.js';
import { type BinaryRow, Lost, ReadingConnection, Refused } from './connection.js';
import { notReplicated, obstacleOn } from './lane.js';
import type { ReadKeys } from './opened-keys.js';
import { type LogRow, readLog } from './schema.js';
import type { SealKey } from './seal.js';
import { assertSealed, lookAfterLanes, lookAtWaiting, sequence } from './sequencing.js';
import { groupsOf, rowsOf, type Span, spansFrom } from './spans.js';
import { sql } from './sql.js';

/** Interval at which a collector updates its `seen_at`, in milliseconds. */
const LOOK_AFTER_MS = 10_000;
/**
 * Time for which another process may hold the lock on the head without progress before the gauges report a
 * stall.
 */
const LOCKED_MS = 5000;
/** SQLSTATE of a lock_timeout. */
const LOCK_NOT_AVAILABLE = '55P03';
/** Offsets in a leaf. */
const [ENVELOPE_HASH_AT, COMMITMENT_AT] = [9, 41];
const STATES: readonly PayloadState[] = ['plain', 'encrypted', 'erased'];

/** Keys that decrypt payloads, and the sequences whose payloads stay closed. */
interface Opener {
  readonly keys: StoredKeys | undefined;
  readonly erased: SequenceSet;
}

/** An entry that matches its leaf. */
interface Row {
  readonly sequence: number;
  readonly state: PayloadState;
  readonly envelope: Buffer;
  readonly commitment: Buffer;
  /** Empty if the payload cannot be decrypted or was removed. */
  readonly salted: Buffer;
}

export interface PostgresCommittedOptions {
  readonly durability: LogRow['durability'];
  readonly collectorId: string;
  /** See seal.ts. */
  readonly sealKey: SealKey;
  readonly gauges?: SharedGauges | undefined;
  /** Called with the end of the log. */
  readonly onSequenced?: (sequenced: Sequenced) => void;
  readonly onTrouble?: (what: string, error: unknown) => void;
}

/** Entries that have a place, as the tree needs them: it reads leaves only, not payloads. */
export class PostgresCommitted implements Committed, SharedCommits {
  entries = 0;
  #lookedAfter = -Infinity;
  readonly #clock = new SteppingClock();
  /** The last time at which places were given, or no batch waited for one. */
  #progressAt = performance.now();

  constructor(
    private readonly connection: ReadingConnection,
    private readonly options: PostgresCommittedOptions,
  ) {}

  get shared(): this {
    return this;
  }

  get epoch(): number {
    return this.connection.opened;
  }

  async sequence(): Promise<boolean> {
    const { durability, collectorId, sealKey, gauges, onTrouble } = this.options;
    const now = performance.now();
    if (now - this.#lookedAfter >= LOOK_AFTER_MS) {
      this.#lookedAfter = now;
      const step = await lookAfterLanes(this.connection, collectorId, this.#clock, gauges).catch(
        async (error: unknown) => {
          // An earlier statement holds the row, and may still wait for the standby.
          if (!(error instanceof Refused) || error.code !== LOCK_NOT_AVAILABLE) throw error;
          const obstacle = await obstacleOn(this.connection, durability);
          throw obstacle === undefined ? error : new Lost(notReplicated(obstacle), { cause: error });
        },
      );
      if (step !== undefined) onTrouble?.("the database's clock was set", new Error(describeStep(step)));
    }
    let sequenced: Sequenced | undefined;
    try {
      sequenced = await sequence(this.connection, sealKey, durability);
    } catch (error) {
      await this.#reportStalled().catch(() => undefined);
      throw error;
    }
    if (sequenced === undefined) {
      const before = this.entries;
      await this.look();
      // The holder of the lock may fail or be idle: only a new place proves progress.
      if (this.entries > before) this.#progressed(now);
      else if (now - this.#progressAt >= LOCKED_MS) await this.#reportStalled();
      return false;
    }
    this.#progressed(now);
    this.#note(sequenced);
    return true;
  }

  #progressed(now: number): void {
    this.#progressAt = now;
    this.options.gauges?.stalled?.(0);
  }

  async #reportStalled(): Promise<void> {
    const { gauges } = this.options;
    if (gauges !== undefined) gauges.stalled?.(await lookAtWaiting(this.connection, gauges));
  }

  async look(): Promise<void> {
    const [head = []] = (await this.connection.query(sql('head'))).rows;
    const [entries = 0, ownEntries = 0, bytes = 0] = head.slice(0, 3).map(Number);
    this.#note({ entries, ownEntries, bytes });
  }

  #note(sequenced: Sequenced): void {
    this.entries = sequenced.entries;
    this.options.onSequenced?.(sequenced);
  }

  /** @throws LaneBroken at a batch that no collector sealed, so that no root covers it. */
  async *pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor> {
    const { sealKey } = this.options;
    const last = this.entries;
    let next = from.sequence;
    while (next <= last) {
      const spans = await spansFrom(this.connection, next, last);
      for (const span of spans) {
        if (span.first > next) throw damaged(next);
        if (span.first > sealKey.lostBefore) assertSealed(sealKey, span);
        yield leavesOf(span, next, last);
        next = span.first + span.entries;
      }
      if (spans.length === 0) throw damaged(next);
    }
    return next > from.sequence ? cursorAfter(last) : from;
  }
}

function* leavesOf({ first, entries, leaves }: Span, from: number, last: number): Generator<CommittedEntry> {
  for (let i = Math.max(0, from - first); i < entries && first + i <= last; i++) {
    const leaf = leaves.subarray(i * LEAF_BYTES, (i + 1) * LEAF_BYTES);
    yield { sequence: first + i, hashLeaf: (target, at) => encodedLeafHash(leaf, target, at) };
  }
}

export class PostgresLog implements EntryLog {
  /** Bytes of all entries at the last query. */
  extent = 0;
  readonly #actions: ActionRows;

  private constructor(
    private readonly connection: ReadingConnection,
    readonly ledgerId: string,
    private readonly isEncrypted: boolean,
    private readonly keys: ReadKeys | undefined,
  ) {
    this.#actions = new ActionRows(connection);
  }

  /**
   * @param connection `close` closes it. @param keys that decrypt its payloads; undefined leaves them
   *   encrypted.
   * @throws Unreachable, SchemaUnfit.
   */
  static async open(
    address: Address,
    connection = new ReadingConnection(address, 'reading'),
    keys?: ReadKeys,
  ): Promise<PostgresLog> {
    const { ledgerId, encryptionKeys } = await readLog(connection, { forWriting: false });
    const log = new PostgresLog(connection, ledgerId, encryptionKeys !== undefined, keys);
    await log.#head();
    return log;
  }

  /** The actions at the last read. */
  actions(): Actions {
    return this.#actions.actions;
  }

  async *entries(from: Cursor = BEGINNING): AsyncGenerator<Iterable<StoredEntry>, Cursor, undefined> {
    const last = await this.#head();
    for await (const rows of this.#rows(from.sequence, last)) yield rows.map(storedEntry);
    return cursorAfter(last);
  }

  async end(): Promise<Cursor> {
    return cursorAfter(await this.#head());
  }

  async withId({ eventId, organisation }: SoughtId): Promise<FoundEntries> {
    const { rows } = await this.connection.query(sql('sequences_of_id'), [eventId, organisation ?? null]);
    const entries: StoredEntry[] = [];
    for (const [sequence] of rows)
      for await (const found of this.#rows(Number(sequence), Number(sequence)))
        entries.push(...found.map(storedEntry));
    return { entries, nextSequence: (await this.#head()) + 1 };
  }

  async close(): Promise<void> {
    await this.connection.close();
  }

  /** @throws StoreDamaged after the last entry that matches its leaf. */
  async *#rows(from: number, last: number): AsyncGenerator<readonly Row[], void> {
    let next = from;
    while (next <= last) {
      const spans = await spansFrom(this.connection, next, last);
      if (spans.length === 0) throw damaged(next);
      const groups = [...groupsOf(spans)];
      // While the caller handles one group, the database reads the next.
      let coming = this.#entriesOf(groups[0]);
      for (const [n, group] of groups.entries()) {
        const rows = await coming;
        coming = this.#entriesOf(groups[n + 1]);
        const checked = checkedRows(group, rows, from, last, await this.#opener());
        if (checked.rows.length > 0) yield checked.rows;
        if (checked.damagedAt !== undefined) throw damaged(checked.damagedAt);
        const end = group.at(-1);
        if (end !== undefined) next = end.first + end.entries;
      }
    }
  }

  /**
   * Call it after reading rows. An action has its place before it destroys a key, so a missing key is known
   * here.
   */
  async #opener(): Promise<Opener> {
    await this.keys?.refresh();
    if (this.isEncrypted) await this.#actions.refresh();
    return { keys: this.keys?.stored, erased: this.#actions.actions.erased };
  }

  /** The rows of a group. A rejection reaches only a caller that awaits them. */
  #entriesOf(group: readonly Span[] | undefined): Promise<readonly BinaryRow[]> {
    const rows = group === undefined ? Promise.resolve([]) : rowsOf(this.connection, group);
    rows.catch(() => undefined);
    return rows;
  }

  async #head(): Promise<number> {
    const [[size, , bytes] = []] = (await this.connection.query(sql('head'))).rows;
    this.extent = Number(bytes);
    await this.#actions.refresh();
    return Number(size);
  }
}

function cursorAfter(sequence: number): Cursor {
  return { sequence: sequence + 1, at: sequence };
}

function damaged(sequence: number): StoreDamaged {
  return new StoreDamaged({ where: 'the database', sequence }, 'the entry is damaged');
}

/** The rows of some batches between two sequences, up to the first one that does not match its leaf. */
function checkedRows(
  group: readonly Span[],
  raw: readonly BinaryRow[],
  from: number,
  last: number,
  opener: Opener,
): { readonly rows: readonly Row[]; readonly damagedAt?: number } {
  const rows: Row[] = [];
  let next = 0;
  for (const [n, { first, entries, leaves }] of group.entries()) {
    for (let i = 0; i < entries; i++) {
      const [number, , state, envelope, salted] = raw[next] ?? [];
      const leaf = leaves.subarray(i * LEAF_BYTES, (i + 1) * LEAF_BYTES);
      const isNext = number !== undefined && numberIn(number) === n + 1;
      const row = isNext ? rowOf(first + i, state, envelope, salted, leaf, opener) : undefined;
      if (isNext) next++;
      if (first + i > last) return { rows };
      if (first + i < from) continue;
      if (row === undefined) return { rows, damagedAt: first + i };
      rows.push(row);
    }
  }
  return { rows };
}

/** Decrypts the row if it can. @returns undefined if the row does not match its leaf. */
function rowOf(
  sequence: number,
  state: Buffer | null | undefined,
  envelope: Buffer | null | undefined,
  salted: Buffer | null | undefined,
  leaf: Buffer,
  { keys, erased }: Opener,
): Row | undefined {
  const stored = state && STATES[numberIn(state)];
  if (!envelope || !stored) return undefined;
  const commitment = leaf.subarray(COMMITMENT_AT);
  if (!sha256(envelope).equals(leaf.subarray(ENVELOPE_HASH_AT, COMMITMENT_AT))) return undefined;
  const row = { sequence, envelope, commitment };
  if (stored === 'plain')
    return salted && sha256(salted).equals(commitment) ? { ...row, state: stored, salted } : undefined;
  const closed = { ...row, state: stored, salted: Buffer.alloc(0) };
  if (stored === 'erased' || erased.has(sequence)) return { ...closed, state: 'erased' };
  if (!salted || !commitmentIn(salted).equals(commitment)) return undefined;
  const opened = openRow(keys, organisationIn(envelope), envelope, salted);
  if (opened === 'unfit') return undefined;
  return typeof opened === 'string' ? closed : { ...row, state: 'plain', salted: opened };
}

function organisationIn(envelope: Buffer): string {
  return decodeEnvelope(envelope).envelope.organisation;
}

function idText(id: Uint8Array): string | undefined {
  return isNoId(id) ? undefined : uuidText(id);
}

function storedEntry({ sequence, state, envelope, commitment, salted }: Row): StoredEntry {
  const { kind, profile, door, organisation, keyId, receivedAt, ...ids } = decodeEnvelope(envelope).envelope;
  return {
    ...{ sequence, kind, profile, door, organisation, keyId, receivedAt, eventId: uuidText(ids.eventId) },
    ...{ runId: idText(ids.runId), parentId: idText(ids.parentId), payloadState: state },
    ...{ envelope, commitment, salted, body: salted.subarray(SALT_BYTES) },
  };
}
