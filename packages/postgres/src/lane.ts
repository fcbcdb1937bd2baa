/**
 * One connection that writes. It owns a lane, a number that it shares with no other writer, and numbers its
 * batches, one in flight at a time. So the committed batches of a lane have no gap, and committed batches
 * without a place are found without a database sequence, a transaction id or a time-out.
 *
 * Doubt ends a lane. If no answer to batch n arrives, the lane inserts a closing batch with the number n. If
 * that succeeds, batch n was not committed and never can be; if it collides, batch n was committed. A batch
 * that certainly failed leaves its number to the next one.
 *
 *   append n      answer            committed
 *                 refused           not committed, n is used again
 *                 no answer         closing batch at n:  stored     not committed
 *                                                        collides   committed; closed at n + 1
 *                                                        no answer  unknown: CommitUnknown
 *   a warning     committed here, perhaps not on the standby: empty batches follow until no warning comes
 */
import { encodeEnvelope, encodeLeaf, envelopeSize, LEAF_BYTES, SALT_BYTES } from '@clinical-events/protocol';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Candidate,
  CommitUnknown,
  keysUnwritable,
  NotCommitted,
  type Outcome,
  type SharedGauges,
} from '@clinical-events/collector/store/contract/events';
import { repeatOutcome } from '@clinical-events/collector/store/content';
import type { StoredKeys } from '@clinical-events/collector/privacy/stored-keys';
import { commitmentIn, envelopeIn, keyPlaceIn, openRow, type RowSealer } from './encrypted-row.js';
import type { Address } from './address.js';
import { byteaArray, bytesOf, int2Array, int4Array, sha256, uuidArray } from './binary.js';
import {
  type Answer,
  Connection,
  Lost,
  type Parameter,
  type TextRow,
  Refused,
  weaknessOf,
} from './connection.js';
import { readLog, type LogRow } from './schema.js';
import { isSealed, type SealKey, sealOf } from './seal.js';
import { sql } from './sql.js';

/** Deadline of a batch, including the time to resolve doubt and to wait for the standby. */
const DEADLINE_MS = 10_000;
/** Deadline of the closing batch at a shutdown. */
const CLOSE_MS = 2000;
const RETRY_MS = 20;
const MOST_RETRY_MS = 500;
const OPEN_EVERY_MS = 100;
const UNIQUE_VIOLATION = '23505';
const READ_ONLY = '25006';
const FOREIGN_KEY_VIOLATION = '23503';
/** Deadlock and serialisation failure: the batch itself is sound. */
const AGAIN = new Set(['40P01', '40001']);
const APPEND = sql('append_batch');

export interface RowEncryption {
  readonly sealer: RowSealer;
  /** Keys of stored payloads. */
  readonly stored: StoredKeys;
  /** Whether an action destroyed the key. */
  readonly isTaken: (tag: number, organisation: string, place: number) => boolean;
  /** On return the keys of all sealed payloads are durable. */
  save(): Promise<void>;
  /** On return the keys and actions of other collectors are known. */
  refresh(): Promise<void>;
}

export interface LaneOptions {
  readonly address: Address;
  /** UUID of this process in the table `collectors`. */
  readonly collectorId: string;
  readonly durability: LogRow['durability'];
  /** See seal.ts. */
  readonly sealKey: SealKey;
  /** The id of the log; a server with another id is refused. */
  readonly ledgerId: string;
  /** Undefined if payloads are not encrypted. */
  readonly encryption?: RowEncryption | undefined;
  /** Looks up the number of an organisation. */
  readonly organisationId: (connection: Connection, name: string) => number | Promise<number>;
  readonly gauges?: SharedGauges | undefined;
  /** Called when something is degraded, but nothing is lost. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** On return `collectors` has a row of this process, perhaps on this server only. */
  readonly register: (connection: Connection) => Promise<void>;
  /** Called when the database has lost acknowledged batches. */
  readonly onLost: (reason: string) => void;
}

/** An encoded batch, which may be sent more than once. */
interface Packed {
  readonly ids: Buffer;
  readonly organisations: Buffer;
  readonly ords: Buffer;
  readonly envelopes: Buffer;
  readonly salted: Buffer;
  readonly leaves: Buffer;
  readonly states: Buffer;
}

const EMPTY: Packed = {
  ...{ ids: uuidArray([]), organisations: int4Array([]), ords: int2Array([]) },
  ...{ envelopes: byteaArray([]), salted: byteaArray([]), leaves: byteaArray([]) },
  states: int2Array([]),
};

export class Lane {
  #connection: Connection | undefined;
  #lane = 0;
  /** The server's time of opening; with the number it identifies the lane. */
  #openedAt = '';
  /** The number of the next batch. */
  #next = 1;
  #closed = false;
  /** The seal of the last batch that was sent. */
  #sealed: Buffer = Buffer.alloc(0);
  /** The earliest time to open a lane, by `performance.now`. */
  #restUntil = 0;

  constructor(private readonly options: LaneOptions) {}

  /**
   * See Store.append. Only one call may run at a time.
   * @throws NotCommitted, CommitUnknown; the lane stays usable after either.
   */
  async append(batch: readonly Candidate[]): Promise<Outcome[]> {
    try {
      return await this.#append(batch);
    } catch (error) {
      if (!isPoison(error)) throw error;
      return this.#apart(batch, error);
    }
  }

  /** Stores the other events of a batch when the server permanently refuses one. */
  async #apart(batch: readonly Candidate[], cause: Error): Promise<Outcome[]> {
    if (batch.length === 1) {
      this.options.onTrouble('the database refuses an event that passed every check', cause);
      return ['unreadable'];
    }
    const half = batch.length >> 1;
    const first = await this.append(batch.slice(0, half));
    try {
      return [...first, ...(await this.append(batch.slice(half)))];
    } catch (error) {
      throw new CommitUnknown('a part of the batch is stored', { cause: error });
    }
  }

  async #append(batch: readonly Candidate[]): Promise<Outcome[]> {
    const until = performance.now() + DEADLINE_MS;
    const fresh = await this.#store(batch, until);
    if (fresh.size === batch.length) return batch.map(() => 'accepted');
    return this.#compare(batch, fresh);
  }

  /** The numbers of the organisations on the server of this connection. */
  async #organisationsOf(connection: Connection, batch: readonly Candidate[]): Promise<number[]> {
    const numbers: number[] = [];
    for (const { organisation } of batch) {
      const known = this.options.organisationId(connection, organisation);
      numbers.push(typeof known === 'number' ? known : await known);
    }
    return numbers;
  }

  /** On return an empty batch, and every earlier commit, is committed and replicated. */
  async barrier(): Promise<void> {
    const until = performance.now() + DEADLINE_MS;
    await this.#ready(until);
    await this.#store([], until);
  }

  /**
   * Does the same as `barrier`, but stores no batch while the server reports that it would not be replicated:
   * a store that refuses events is proved every few seconds, perhaps for weeks.
   */
  async prove(): Promise<void> {
    const until = performance.now() + DEADLINE_MS;
    const connection = await this.#ready(until);
    const reason = 'database_unavailable';
    const obstacle = await obstacleOn(connection, this.options.durability).catch((error: unknown) => {
      throw new NotCommitted('the database does not answer', { cause: error, reason });
    });
    if (obstacle !== undefined) throw new NotCommitted(notReplicated(obstacle), { reason });
    await this.#store([], until);
  }

  /** On return the lane is closed, if the server can be reached. */
  async close(): Promise<void> {
    this.#closed = true;
    const connection = this.#connection;
    if (connection === undefined) return;
    if (connection.isOpen)
      await this.#send(connection, EMPTY, performance.now() + CLOSE_MS, true).catch(() => undefined);
    await connection.close();
  }

  /** @throws NotCommitted if no server can be reached: nothing was sent. */
  async #ready(until: number): Promise<Connection> {
    if (this.#closed) throw new NotCommitted('the store is closed');
    if (this.#connection?.isOpen === true) return this.#connection;
    for (;;) {
      try {
        await sleep(Math.max(0, this.#restUntil - performance.now()));
        const connection = await this.#open();
        // Limits the rate of openings when the server ends each new connection.
        this.#restUntil = performance.now() + OPEN_EVERY_MS;
        return connection;
      } catch (error) {
        if (performance.now() >= until || !(error instanceof Lost)) {
          throw new NotCommitted('the database cannot be reached', {
            ...{ cause: error, reason: 'database_unavailable' },
          });
        }
      }
    }
  }

  async #open(): Promise<Connection> {
    const { address, collectorId, ledgerId } = this.options;
    const connection = await Connection.open(address, `lane of ${collectorId}`);
    try {
      const log = await readLog(connection);
      if (log.ledgerId !== ledgerId) throw new Error(`it holds another log (${log.ledgerId})`);
      if (log.encryptionKeys !== undefined && this.options.encryption === undefined)
        throw new Error('its payloads are encrypted, and this collector has no keys: start it again');
      if (this.#lane > 0) await this.#lastOf(connection, this.#lane, this.#next);
      const draw = () => connection.query(sql('open_lane'), [collectorId]);
      const { rows, warnings } = await draw().catch(async (error: unknown) => {
        if (!(error instanceof Refused) || error.code !== FOREIGN_KEY_VIOLATION) throw error;
        // The server has lost the row of this collector.
        await this.options.register(connection);
        return draw();
      });
      if (rows[0] === undefined) throw new Error('no lanes are left; see collector store maintain');
      if (warnings.length > 0) throw new Lost('the lane is not known to be replicated');
      this.#lane = Number(rows[0][0]);
      this.#openedAt = rows[0][1] ?? '';
      this.#next = 1;
      this.#connection = connection;
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  /** Stores a batch exactly once. @returns the ords of the new events. */
  async #store(batch: readonly Candidate[], until: number): Promise<ReadonlySet<number>> {
    const fresh = new Set<number>();
    let isInDoubt = false;
    for (;;) {
      const connection = await this.#ready(until).catch((error: unknown) => {
        if (isInDoubt) throw new CommitUnknown('not known to be replicated', { cause: error });
        throw error;
      });
      try {
        const organisations = await this.#organisationsOf(connection, batch);
        const packed = await this.#packed(batch, organisations, isInDoubt);
        const answer = await this.#send(connection, packed, until);
        isInDoubt = true;
        for (const [ord] of answer.rows) if (typeof ord === 'string') fresh.add(Number(ord));
        await this.#replicated(connection, answer, until);
        return fresh;
      } catch (error) {
        if (error instanceof Refused) this.#refused(connection, error, isInDoubt, until);
        else if (!(error instanceof Lost)) throw error;
        else if (!isInDoubt) {
          const stored = await this.#resolve(error, until);
          if (stored !== undefined) return stored;
        }
        // Otherwise it was committed on this server. A failover may have lost it: it is sent again, in a new
        // lane.
        if (isInDoubt && performance.now() >= until) {
          throw new CommitUnknown('not known to be replicated', { cause: error });
        }
      }
    }
  }

  /** On return the keys that encrypt the batch are durable. */
  async #packed(
    batch: readonly Candidate[],
    organisations: readonly number[],
    isInDoubt: boolean,
  ): Promise<Packed> {
    const { encryption } = this.options;
    try {
      const packed = pack(batch, organisations, encryption?.sealer);
      await encryption?.save();
      return packed;
    } catch (error) {
      const fault = keysUnwritable(error);
      throw isInDoubt
        ? new CommitUnknown(`not known to be replicated, and ${fault.message}`, { cause: error })
        : fault;
    }
  }

  /** Returns if the batch can be sent again immediately. @throws NotCommitted, CommitUnknown otherwise. */
  #refused(connection: Connection, error: Refused, isInDoubt: boolean, until: number): void {
    const isOver = performance.now() >= until;
    if (AGAIN.has(error.code) && !isOver) return;
    if (error.code === UNIQUE_VIOLATION && /^(batches|events)_/.test(error.constraint ?? '') && !isOver) {
      // Another process closed the lane because this one was paused, or someone inserted rows with its next
      // number.
      connection.destroy();
      return;
    }
    // The server is read-only: it became a standby, or was set to read-only.
    if (error.code === READ_ONLY) connection.destroy();
    if (isInDoubt) throw new CommitUnknown('not known to be replicated', { cause: error });
    throw new NotCommitted(`the database refused the batch (${error.code})`, {
      ...{ cause: error, reason: 'database_unavailable' },
    });
  }

  /**
   * Waits until the answered commit is on the standby.
   * @throws CommitUnknown after the deadline; Lost.
   */
  async #replicated(connection: Connection, answer: Answer, until: number): Promise<void> {
    let doubt = await this.#doubtOf(connection, answer);
    for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, MOST_RETRY_MS)) {
      if (this.options.durability === 'replicated') this.options.gauges?.replicated(doubt === undefined);
      if (doubt === undefined) return;
      this.options.onTrouble(
        'the standby is not known to have what was stored; the collector tries again',
        new Error(doubt),
      );
      if (performance.now() >= until) throw new CommitUnknown(`not known to be replicated: ${doubt}`);
      await sleep(pauseMs);
      doubt = await obstacleOn(connection, this.options.durability);
      doubt ??= await this.#doubtOf(connection, await this.#send(connection, EMPTY, until));
    }
  }

  /** The reason why an answered commit may not be on the standby; undefined if it is, or need not be. */
  async #doubtOf(connection: Connection, { rows, warnings }: Answer): Promise<string | undefined> {
    const [, commit, messages] = rows[0] ?? [];
    const weakness = weaknessOf(commit, messages);
    if (weakness !== undefined) return weakness;
    if (this.options.durability === 'local') return undefined;
    if (warnings.length > 0) return `the server warned (${warnings.join(', ')})`;
    return doubtIn((await connection.query(sql('standbys'))).rows[0]);
  }

  async #send(connection: Connection, packed: Packed, until: number, closes = false): Promise<Answer> {
    const { ids, organisations, ords, envelopes, salted, leaves, states } = packed;
    const seal = (this.#sealed = sealOf(this.options.sealKey, this.#lane, this.#next, leaves));
    const values = [
      this.#lane,
      this.#next,
      ids,
      organisations,
      ords,
      envelopes,
      salted,
      leaves,
      seal,
      closes,
      states,
    ];
    const answer = await connection.query(APPEND, values, left(until));
    this.#next++;
    return answer;
  }

  /**
   * Closes the lane at the number of a batch whose answer did not arrive.
   * @returns the ords of its stored events; undefined if it was not committed and never can be.
   * @throws CommitUnknown if the outcome cannot be determined before the deadline.
   */
  async #resolve(cause: Lost, until: number): Promise<ReadonlySet<number> | undefined> {
    const [lane, batch] = [this.#lane, this.#next];
    this.#connection = undefined;
    for (;;) {
      let connection: Connection | undefined;
      try {
        connection = await Connection.open(this.options.address, `closing lane ${lane}`);
        return await this.#closeAt(connection, lane, batch, until);
      } catch (error) {
        if (performance.now() >= until) {
          throw new CommitUnknown('no answer to a batch arrived, and its outcome is unknown', { cause });
        }
        this.options.onTrouble('the outcome of a batch is unknown; the collector asks again', error);
        await sleep(RETRY_MS);
      } finally {
        connection?.destroy();
      }
    }
  }

  /**
   * The number of the last batch of a lane below `next`. It is `next - 1` unless the database lost batches;
   * undefined if it lost the lane.
   */
  async #lastOf(connection: Connection, lane: number, next: number): Promise<number | undefined> {
    const { collectorId, onLost } = this.options;
    const { rows } = await connection.query(sql('last_of_lane'), [lane, next, collectorId, this.#openedAt]);
    const last = rows[0] === undefined ? undefined : Number(rows[0][0]);
    if ((last ?? 0) < next - 1) {
      onLost(`batches ${(last ?? 0) + 1} to ${next - 1} of lane ${lane}`);
      this.#lane = 0;
    }
    return last;
  }

  async #closeAt(
    connection: Connection,
    lane: number,
    numbered: number,
    until: number,
  ): Promise<ReadonlySet<number> | undefined> {
    // On a server that has lost batches, the batch in doubt can never arrive either.
    const last = await this.#lastOf(connection, lane, numbered);
    if (last === undefined) return undefined;
    const batch = last + 1;
    const closing = (number: number) =>
      connection.query(
        sql('close_lane'),
        [lane, number, sealOf(this.options.sealKey, lane, number, EMPTY.leaves)],
        left(until),
      );
    const assertReplicated = async (answer: Answer) => {
      const doubt = await this.#doubtOf(connection, answer);
      if (doubt !== undefined) throw new Lost(doubt);
    };
    try {
      await assertReplicated(await closing(batch));
      return undefined;
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== UNIQUE_VIOLATION) throw error;
    }
    // An earlier closing batch may have been committed without an answer.
    const { rows } = await connection.query(sql('batch_in_doubt'), [lane, batch]);
    const [closes, candidates, seal] = rows[0] ?? [];
    const isClosing = closes === 't' && candidates === '0';
    // If another writer's batch has the number, the batch in doubt was not committed and never can be.
    const isOwn = typeof seal === 'string' && bytesOf(seal).equals(this.#sealed);
    try {
      await assertReplicated(await closing(batch + 1));
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== UNIQUE_VIOLATION) throw error;
      // An earlier closing batch may have this number too: the next commit shows whether it was replicated.
      await assertReplicated(await closing(batch + 2));
    }
    if (isClosing || !isOwn) return undefined;
    const stored = await connection.query(sql('stored_ords'), [lane, batch]);
    return new Set(stored.rows.map(([ord]) => Number(ord)));
  }

  /** Compares repeats with the stored events, all of which were committed before this batch. */
  async #compare(batch: readonly Candidate[], fresh: ReadonlySet<number>): Promise<Outcome[]> {
    const ords = [...batch.keys()].filter((ord) => !fresh.has(ord));
    const repeats = batch.filter((_, ord) => !fresh.has(ord));
    const rows = await this.#stored(async (connection) => [
      uuidArray(repeats.map(({ eventId }) => eventId)),
      int4Array(await this.#organisationsOf(connection, repeats)),
      int2Array(ords),
    ]);
    // A repeat is never accepted without a comparison.
    const outcomes: Outcome[] = batch.map((_, ord) => (fresh.has(ord) ? 'accepted' : 'unreadable'));
    const compare = () => {
      for (const [at, ...row] of rows) {
        const ord = Number(at);
        const candidate = batch[ord];
        if (candidate === undefined) throw new Error(`the database compared event ${ord} of ${batch.length}`);
        const began = performance.now();
        outcomes[ord] = this.#outcomeOf(candidate, row);
        candidate.comparedMs = performance.now() - began;
      }
    };
    compare();
    // Another collector may just have made their keys, which were durable before the events.
    if (outcomes.includes('unreadable') && (await this.#isRefreshed())) compare();
    return outcomes;
  }

  async #isRefreshed(): Promise<boolean> {
    const { encryption, onTrouble } = this.options;
    try {
      await encryption?.refresh();
      return encryption !== undefined;
    } catch (error) {
      onTrouble('the keys of payloads cannot be read', error);
      return false;
    }
  }

  /** The outcome of a repeat. An unavailable key affects only its own event. */
  #outcomeOf(candidate: Candidate, row: TextRow): Outcome {
    const { encryption, onTrouble } = this.options;
    try {
      return outcomeOf(candidate, row, encryption);
    } catch (error) {
      onTrouble('a stored event cannot be decrypted: its keys cannot be read', error);
      return 'unreadable';
    }
  }

  /**
   * Blanks the rows that no sealed batch contains: an id that someone inserted must not answer for an event
   * that was never stored.
   */
  async #believed(connection: Connection, rows: readonly TextRow[]): Promise<readonly TextRow[]> {
    const { sealKey, onTrouble } = this.options;
    const keyOf = (lane?: string | null, batch?: string | null) => `${lane ?? ''} ${batch ?? ''}`;
    const named = new Map(rows.map(([, , , , lane, batch]) => [keyOf(lane, batch), [lane, batch]]));
    const numbers = [...named.values()].filter(([lane]) => typeof lane === 'string');
    const arrays = [0, 1].map((i) => int4Array(numbers.map((each) => Number(each[i]))));
    const sealed = new Map<string, Buffer>();
    for (const row of (await connection.query(sql('sealed_batches'), arrays)).rows) {
      const [lane, batch, candidates, leaves, repeats, seal, first] = row;
      const batchOf = { lane: Number(lane), batch: Number(batch), candidates: Number(candidates) };
      const [ofRepeats, ofSeal] = [repeats, seal].map((each) => (each == null ? null : bytesOf(each)));
      const stored = {
        ...batchOf,
        leaves: bytesOf(leaves ?? ''),
        repeats: ofRepeats ?? null,
        seal: ofSeal ?? null,
      };
      const isOld = first != null && Number(first) <= sealKey.lostBefore;
      if (isOld || isSealed(sealKey, stored)) sealed.set(keyOf(lane, batch), stored.leaves);
    }
    return rows.map((row) => {
      const leaves = sealed.get(keyOf(row[4], row[5]));
      if (typeof row[2] === 'string' && leaves !== undefined && isAmong(leaves, row)) return row;
      onTrouble(
        'an id is stored, and no collector has stored its event; see collector store quarantine',
        undefined,
      );
      return [row[0] ?? null, null, null, null];
    });
  }

  async #stored(
    valuesOn: (connection: Connection) => Promise<readonly Parameter[]>,
  ): Promise<readonly TextRow[]> {
    const until = performance.now() + DEADLINE_MS;
    for (;;) {
      try {
        const connection = await this.#ready(until);
        const { rows } = await connection.query(sql('stored_events'), await valuesOn(connection));
        return await this.#believed(connection, rows);
      } catch (error) {
        // The new events of the batch are stored already.
        if (performance.now() < until && !(error instanceof Refused)) continue;
        throw new CommitUnknown('the repeats of a batch could not be compared', { cause: error });
      }
    }
  }
}

/** Whether the sealed leaves contain the row's leaf; a removed payload is not compared. */
function isAmong(leaves: Buffer, [, state, envelope, salted]: TextRow): boolean {
  const [bytes, row] = [bytesOf(envelope ?? ''), typeof salted === 'string' ? bytesOf(salted) : undefined];
  const leaf = Buffer.alloc(LEAF_BYTES);
  const commitment = row && (state === '1' ? commitmentIn(row) : sha256(row));
  encodeLeaf(leaf, 0, bytes, sha256(bytes), commitment ?? Buffer.alloc(32));
  const known = leaf.subarray(0, commitment === undefined ? -32 : LEAF_BYTES);
  for (let at = 0; at < leaves.length; at += LEAF_BYTES)
    if (leaves.subarray(at, at + known.length).equals(known)) return true;
  return false;
}

/** A value that a type or a check of the tables does not allow (PostgreSQL documentation, appendix A). */
function isPoison(error: unknown): error is NotCommitted {
  if (!(error instanceof NotCommitted) || !(error.cause instanceof Refused)) return false;
  const { code, constraint } = error.cause;
  // Without a constraint, the partition of the month is missing.
  return code.startsWith('22') || (code === '23514' && constraint !== undefined);
}

/** The reason why a batch would not be acknowledged now; undefined if it would. Stores nothing. */
export async function obstacleOn(
  connection: Pick<Connection, 'query'>,
  durability: LogRow['durability'],
): Promise<string | undefined> {
  const [row = []] = (await connection.query(sql('obstacles'))).rows;
  const [, , , commit, messages, isAlone] = row;
  const weakness = weaknessOf(commit, messages);
  if (weakness !== undefined || durability === 'local') return weakness;
  return doubtIn(row) ?? (isAlone === 't' ? 'no synchronous standby is connected' : undefined);
}

/** @param obstacle of {@link obstacleOn}. */
export function notReplicated(obstacle: string): string {
  return `nothing would be replicated: ${obstacle}`;
}

/** @param row of the statement `standbys`. */
function doubtIn([names, inRecovery, isNew]: TextRow = []): string | undefined {
  if (names === '') return 'synchronous_standby_names is empty';
  // A session may see the name of a standby before the server waits for it.
  if (isNew === 't') return 'the settings of the server have just changed';
  return inRecovery !== 'f' ? 'the server is a standby' : undefined;
}

/** Milliseconds until the deadline, at least one. */
function left(until: number): number {
  return Math.max(1, until - performance.now());
}

/** Stores an entry as the only batch of a new lane. @returns the lane. */
export async function appendAlone(
  connection: Connection,
  collectorId: string,
  sealKey: SealKey,
  entry: Candidate,
  organisation: number,
): Promise<number> {
  const [drawn] = (await connection.query(sql('open_lane'), [collectorId])).rows;
  if (drawn === undefined) throw new Error('no lanes are left; see collector store maintain');
  const lane = Number(drawn[0]);
  const { ids, organisations, ords, envelopes, salted, leaves, states } = pack([entry], [organisation]);
  const seal = sealOf(sealKey, lane, 1, leaves);
  await connection.query(APPEND, [
    ...[lane, 1, ids, organisations, ords, envelopes],
    ...[salted, leaves, seal, true, states],
  ]);
  return lane;
}

function pack(batch: readonly Candidate[], organisations: readonly number[], sealer?: RowSealer): Packed {
  const rows = batch.map((candidate) => {
    const envelope = Buffer.allocUnsafe(envelopeSize(candidate));
    encodeEnvelope(envelope, 0, candidate);
    const leaf = Buffer.allocUnsafe(LEAF_BYTES);
    encodeLeaf(leaf, 0, envelope, sha256(envelope), candidate.commitment);
    const sealed = sealer && !isOwn(candidate) ? sealer.seal(candidate, leaf) : undefined;
    return { envelope, leaf, salted: sealed ?? candidate.salted, state: sealed === undefined ? 0 : 1 };
  });
  return {
    ids: uuidArray(batch.map(({ eventId }) => eventId)),
    organisations: int4Array(organisations),
    ords: int2Array([...batch.keys()]),
    envelopes: byteaArray(rows.map(({ envelope }) => envelope)),
    salted: byteaArray(rows.map(({ salted }) => salted)),
    leaves: byteaArray(rows.map(({ leaf }) => leaf)),
    states: int2Array(rows.map(({ state }) => state)),
  };
}

/** Whether it is one of the log's own entries, which are not encrypted. */
function isOwn({ kind }: Candidate): boolean {
  return typeof kind === 'number';
}

/** Compares a repeat with the stored event: payload state, envelope and payload. */
function outcomeOf(
  candidate: Candidate,
  [state, envelope, salted]: TextRow,
  encryption: RowEncryption | undefined,
): Outcome {
  if (typeof envelope !== 'string') return 'unreadable';
  const stands = envelopeIn(bytesOf(envelope));
  // Someone changed the id to refer to another event.
  const isSame = stands !== undefined && Buffer.from(stands.eventId).equals(candidate.eventId);
  if (!isSame || stands.organisation !== candidate.organisation) return 'unreadable';
  const row = bytesOf(salted ?? '');
  const place = state === '1' ? keyPlaceIn(row) : undefined;
  // Even if the key still exists, an erased event must not be compared.
  if (state === '2' || (place && encryption?.isTaken(place.tag, candidate.organisation, place.place)))
    return 'erased';
  if (typeof salted !== 'string') return 'conflict';
  return repeatOutcome(stands, candidate, () => {
    const opened =
      state === '1' ? openRow(encryption?.stored, candidate.organisation, bytesOf(envelope), row) : row;
    return typeof opened === 'string' ? undefined : opened.subarray(SALT_BYTES);
  });
}
