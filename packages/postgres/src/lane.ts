/**
 * One connection that writes. It owns a lane: a number that it never shares, and in which it counts its batches, one on
 * its way at a time. So the committed batches of a lane follow each other without a gap, and what was committed and not
 * yet sequenced is found without a sequence of the database, a transaction id or a time-out.
 *
 * Doubt ends a lane. When the answer to batch n does not come, the lane is closed at n itself: a closing batch goes in
 * under that number. If it does, the batch has not been committed and never can be; if it collides, it has. A batch
 * that failed for sure leaves its number free for the next.
 *
 *   append n      answer            committed
 *                 refused           not committed, n is used again
 *                 nothing           closing batch at n:  stored     not committed
 *                                                        collides   committed; closed at n + 1
 *                                                        nothing    not known: CommitUnknown
 *   a warning     committed here, perhaps not on the standby: empty batches follow until one comes back without
 */
import {
  encodeEnvelope,
  encodeLeaf,
  ENVELOPE_AT,
  envelopeSize,
  LEAF_BYTES,
  SALT_BYTES,
} from '@clinical-events/protocol';
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

/** For all that a batch may need, doubt and waiting for the standby among it, in milliseconds. */
const DEADLINE_MS = 10_000;
/** For the closing batch of an orderly end. */
const CLOSE_MS = 2000;
const RETRY_MS = 20;
const MOST_RETRY_MS = 500;
const OPEN_EVERY_MS = 100;
/** Nothing where the lane is not there, or another one has its number: the server has lost its opening. */
const LAST = `
SELECT (SELECT coalesce(max(batch), 0) FROM batches b WHERE b.lane = l.lane AND b.batch < $2)
FROM lanes l WHERE l.lane = $1 AND l.collector_id = $3::uuid AND l.opened_at = $4::timestamptz`;
const UNIQUE_VIOLATION = '23505';
const READ_ONLY = '25006';
const FOREIGN_KEY_VIOLATION = '23503';
/** Deadlock and serialisation failure: nothing is wrong with the batch. */
const AGAIN = new Set(['40P01', '40001']);

/**
 * One statement, one transaction. Sorted, so that two batches with the same ids cannot block each other for ever; the
 * conflict is named, so that a second batch of the same number is an error and no "repeat".
 */
export const APPEND = `
WITH input AS MATERIALIZED (
  SELECT * FROM unnest($3::uuid[], $4::int[], $5::smallint[], $6::bytea[], $7::bytea[], $8::bytea[], $11::smallint[])
    AS t (event_id, organisation_id, ord, envelope, salted, leaf, payload_state)),
fresh AS (
  INSERT INTO event_ids (event_id, organisation_id, lane, batch, ord)
  SELECT event_id, organisation_id, $1::int, $2::int, ord FROM input
  ORDER BY event_id, organisation_id, ord
  ON CONFLICT (event_id, organisation_id) DO NOTHING RETURNING ord),
payloads AS (
  INSERT INTO events (lane, batch, ord, payload_state, envelope, salted)
  SELECT $1::int, $2::int, ord, payload_state, envelope, salted FROM input JOIN fresh USING (ord) ORDER BY ord),
noted AS (
  INSERT INTO batches (lane, batch, candidates, entries, own, bytes, leaves, repeats, seal, closes)
  SELECT $1::int, $2::int, count(*), count(f.ord),
    count(*) FILTER (WHERE f.ord IS NOT NULL AND get_byte(envelope, ${ENVELOPE_AT.kind}) >= 128),
    coalesce(sum(length(envelope) + length(salted)) FILTER (WHERE f.ord IS NOT NULL), 0),
    coalesce(string_agg(leaf, ''::bytea ORDER BY i.ord) FILTER (WHERE f.ord IS NOT NULL), ''),
    string_agg(int2send(i.ord) || leaf, ''::bytea ORDER BY i.ord) FILTER (WHERE f.ord IS NULL), $9, $10
  FROM input i LEFT JOIN fresh f USING (ord))
SELECT ord, current_setting('synchronous_commit'), current_setting('client_min_messages')
FROM (SELECT 1) AS always LEFT JOIN fresh ON true`;

/** Of events with these ids, what is stored and is compared. See "Plans" in connection.ts. */
const STORED = `
SELECT i.ord, e.payload_state, e.envelope, e.salted, k.lane, k.batch
FROM unnest($1::uuid[], $2::int[], $3::smallint[]) AS i (event_id, organisation_id, ord)
LEFT JOIN LATERAL (SELECT * FROM event_ids WHERE event_id = i.event_id
  AND organisation_id = i.organisation_id OFFSET 0) k ON true
LEFT JOIN LATERAL (SELECT * FROM events WHERE lane = k.lane AND batch = k.batch AND ord = k.ord
  OFFSET 0) e ON true`;

/** Of batches, what says that a collector has stored them. */
const SEALED = `
SELECT i.lane, i.batch, b.candidates, b.leaves, b.repeats, b.seal,
  (SELECT s.first_sequence FROM sequenced s WHERE s.lane = i.lane AND s.batch = i.batch AND s.entries = b.entries)
FROM unnest($1::int[], $2::int[]) AS i (lane, batch)
CROSS JOIN LATERAL (SELECT * FROM batches WHERE lane = i.lane AND batch = i.batch OFFSET 0) b`;

export const OPEN = `
WITH drawn AS (
  UPDATE periods SET next_lane = next_lane + 1 WHERE period = (
    SELECT period FROM periods WHERE begins <= current_date AND next_lane <= to_lane
    ORDER BY period DESC LIMIT 1)
  RETURNING next_lane - 1 AS lane),
noted AS (INSERT INTO open_lanes (lane) SELECT lane FROM drawn ON CONFLICT DO NOTHING)
INSERT INTO lanes (lane, collector_id) SELECT lane, $1::uuid FROM drawn RETURNING lane, opened_at`;

/** Says of a server whether a commit that has just been answered was waited for. */
const STANDBYS = `
SELECT current_setting('synchronous_standby_names'), pg_is_in_recovery(),
  pg_conf_load_time() > clock_timestamp() - interval '1 second'`;
/** And whether the next one would be. A role without pg_read_all_stats cannot see that a standby is missing. */
const OBSTACLES = `${STANDBYS},
  current_setting('synchronous_commit'), current_setting('client_min_messages'),
  pg_has_role('pg_read_all_stats', 'USAGE') AND NOT EXISTS (
    SELECT 1 FROM pg_stat_get_wal_senders() WHERE sync_state IN ('sync', 'quorum'))`;

export interface RowEncryption {
  readonly sealer: RowSealer;
  /** Of what is stored. */
  readonly stored: StoredKeys;
  /** Whether an action has destroyed a key. */
  readonly isTaken: (tag: number, organisation: string, place: number) => boolean;
  /** On return the keys of all that was sealed are durable. */
  save(): Promise<void>;
  /** On return the keys that others have made are known, and by which actions others are gone. */
  refresh(): Promise<void>;
}

export interface LaneOptions {
  readonly address: Address;
  /** Of this process: a UUID in text form, that stands in `collectors`. */
  readonly collectorId: string;
  readonly durability: LogRow['durability'];
  /** See seal.ts. */
  readonly sealKey: SealKey;
  /** Every lane has to be of one log. */
  readonly ledgerId: string;
  /** Undefined where payloads are not encrypted. */
  readonly encryption?: RowEncryption | undefined;
  /** The number of an organisation's name. */
  readonly organisationId: (connection: Connection, name: string) => number | Promise<number>;
  readonly gauges?: SharedGauges | undefined;
  /** Something is degraded, and nothing is lost. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** On return the collector stands in `collectors`, perhaps on this server alone. */
  readonly register: (connection: Connection) => Promise<void>;
  /** What was acknowledged is gone: the database has lost its end. */
  readonly onLost: (reason: string) => void;
}

/** A batch in the form in which it goes out; it may go out more than once. */
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
  /** As the server has it: with the number it says which lane it is. */
  #openedAt = '';
  /** The number that the next batch gets. */
  #next = 1;
  #closed = false;
  /** The seal of the batch that was sent last. */
  #sealed: Buffer = Buffer.alloc(0);
  /** No lane is opened before this, on the clock of `performance.now`. */
  #restUntil = 0;

  constructor(private readonly options: LaneOptions) {}

  /**
   * See Store.append. One call at a time.
   * @throws NotCommitted, CommitUnknown; after either the lane can be used again.
   */
  async append(batch: readonly Candidate[]): Promise<Outcome[]> {
    try {
      return await this.#append(batch);
    } catch (error) {
      if (!isPoison(error)) throw error;
      return this.#apart(batch, error);
    }
  }

  /** The server will never take one of these events: the others are stored without it. */
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

  /** The numbers of the organisations, as the server of this connection has them. */
  async #organisationsOf(connection: Connection, batch: readonly Candidate[]): Promise<number[]> {
    const numbers: number[] = [];
    for (const { organisation } of batch) {
      const known = this.options.organisationId(connection, organisation);
      numbers.push(typeof known === 'number' ? known : await known);
    }
    return numbers;
  }

  /** On return a batch of no events is committed and replicated, and so is what was committed before it. */
  async barrier(): Promise<void> {
    const until = performance.now() + DEADLINE_MS;
    await this.#ready(until);
    await this.#store([], until);
  }

  /**
   * As `barrier`, and stores nothing where the server says that it would not be replicated: a store that refuses is proved
   * every few seconds, perhaps for weeks.
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

  /** On return the lane is closed, as far as the server can be reached. */
  async close(): Promise<void> {
    this.#closed = true;
    const connection = this.#connection;
    if (connection === undefined) return;
    if (connection.isOpen)
      await this.#send(connection, EMPTY, performance.now() + CLOSE_MS, true).catch(() => undefined);
    await connection.close();
  }

  /** @throws NotCommitted when no server can be reached: nothing was sent. */
  async #ready(until: number): Promise<Connection> {
    if (this.#closed) throw new NotCommitted('the store is closed');
    if (this.#connection?.isOpen === true) return this.#connection;
    for (;;) {
      try {
        await sleep(Math.max(0, this.#restUntil - performance.now()));
        const connection = await this.#open();
        // One that is ended right after it was opened must not be opened again and again.
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
      const draw = () => connection.query(OPEN, [collectorId]);
      const { rows, warnings } = await draw().catch(async (error: unknown) => {
        if (!(error instanceof Refused) || error.code !== FOREIGN_KEY_VIOLATION) throw error;
        // The server has lost that this collector is there.
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

  /** Stores a batch once, whatever it takes. @returns the ords of what was new. */
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
        // Otherwise it had been committed, here. After a failover it may be gone: it is sent again, to a new lane.
        if (isInDoubt && performance.now() >= until) {
          throw new CommitUnknown('not known to be replicated', { cause: error });
        }
      }
    }
  }

  /** On return no key that the batch is sealed by can be lost. */
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

  /** @throws unless the batch can be sent again at once. */
  #refused(connection: Connection, error: Refused, isInDoubt: boolean, until: number): void {
    const isOver = performance.now() >= until;
    if (AGAIN.has(error.code) && !isOver) return;
    if (error.code === UNIQUE_VIOLATION && /^(batches|events)_/.test(error.constraint ?? '') && !isOver) {
      // Another process has closed the lane, as this one had stood still for so long; or rows lie at its next number.
      connection.destroy();
      return;
    }
    // The server takes no writes any more: it has become a standby, or was told so.
    if (error.code === READ_ONLY) connection.destroy();
    if (isInDoubt) throw new CommitUnknown('not known to be replicated', { cause: error });
    throw new NotCommitted(`the database refused the batch (${error.code})`, {
      ...{ cause: error, reason: 'database_unavailable' },
    });
  }

  /**
   * Waits until what was answered is on the standby.
   * @throws CommitUnknown when it is not in time; Lost.
   */
  async #replicated(connection: Connection, answer: Answer, until: number): Promise<void> {
    let doubt = await this.#doubtOf(connection, answer);
    for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, MOST_RETRY_MS)) {
      if (this.options.durability === 'replicated') this.options.gauges?.replicated(doubt === undefined);
      if (doubt === undefined) return;
      this.options.onTrouble(
        'the standby is not known to have what was stored; it is tried again',
        new Error(doubt),
      );
      if (performance.now() >= until) throw new CommitUnknown(`not known to be replicated: ${doubt}`);
      await sleep(pauseMs);
      doubt = await obstacleOn(connection, this.options.durability);
      doubt ??= await this.#doubtOf(connection, await this.#send(connection, EMPTY, until));
    }
  }

  /** Why what was answered may not be on the standby; undefined when it is, or need not be. */
  async #doubtOf(connection: Connection, { rows, warnings }: Answer): Promise<string | undefined> {
    const [, commit, messages] = rows[0] ?? [];
    const weakness = weaknessOf(commit, messages);
    if (weakness !== undefined) return weakness;
    if (this.options.durability === 'local') return undefined;
    if (warnings.length > 0) return `the server warned (${warnings.join(', ')})`;
    return doubtIn((await connection.query(STANDBYS)).rows[0]);
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
   * After a batch whose answer did not come: closes its lane at its number.
   * @returns what of it was stored; undefined when nothing was, and nothing can be any more.
   * @throws CommitUnknown when that cannot be found out in time.
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
          throw new CommitUnknown('the answer to a batch did not come, nor what became of it', { cause });
        }
        this.options.onTrouble('what became of a batch is not known yet; it is asked again', error);
        await sleep(RETRY_MS);
      } finally {
        connection?.destroy();
      }
    }
  }

  /**
   * The number of the last batch of a lane below one that is in doubt, or comes next. It is the one before, unless the
   * database has lost its end; undefined when it has lost the lane.
   */
  async #lastOf(connection: Connection, lane: number, next: number): Promise<number | undefined> {
    const { collectorId, onLost } = this.options;
    const { rows } = await connection.query(LAST, [lane, next, collectorId, this.#openedAt]);
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
    // On a server that has lost batches the one in doubt can never come either.
    const last = await this.#lastOf(connection, lane, numbered);
    if (last === undefined) return undefined;
    const batch = last + 1;
    const closing = (number: number) =>
      connection.query(
        `INSERT INTO batches (lane, batch, candidates, entries, leaves, seal, closes)
         VALUES ($1, $2, 0, 0, '', $3, true)
         RETURNING NULL, current_setting('synchronous_commit'), current_setting('client_min_messages')`,
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
    // An earlier try to close it may have gone in without an answer.
    const { rows } = await connection.query(
      'SELECT closes, candidates, seal FROM batches WHERE lane = $1 AND batch = $2',
      [lane, batch],
    );
    const [closes, candidates, seal] = rows[0] ?? [];
    const isClosing = closes === 't' && candidates === '0';
    // Somebody else's batch has the number, so that the one in doubt has not been committed and never can be.
    const isOwn = typeof seal === 'string' && bytesOf(seal).equals(this.#sealed);
    try {
      await assertReplicated(await closing(batch + 1));
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== UNIQUE_VIOLATION) throw error;
      // The same for this one: what follows it shows whether it was replicated.
      await assertReplicated(await closing(batch + 2));
    }
    if (isClosing || !isOwn) return undefined;
    const stored = await connection.query('SELECT ord FROM events WHERE lane = $1 AND batch = $2', [
      lane,
      batch,
    ]);
    return new Set(stored.rows.map(([ord]) => Number(ord)));
  }

  /** Of what was no new event: whether what is stored says the same. All of it was committed before our own batch. */
  async #compare(batch: readonly Candidate[], fresh: ReadonlySet<number>): Promise<Outcome[]> {
    const repeats = [...batch.keys()].filter((ord) => !fresh.has(ord));
    const rows = await this.#stored(async (connection) => {
      const organisations = await this.#organisationsOf(connection, batch);
      return [
        uuidArray(repeats.map((ord) => batch[ord]?.eventId ?? new Uint8Array(16))),
        int4Array(repeats.map((ord) => organisations[ord] ?? 0)),
        int2Array(repeats),
      ];
    });
    const outcomes: Outcome[] = batch.map(() => 'accepted');
    const compare = () => {
      for (const [at, ...row] of rows) {
        const ord = Number(at);
        const candidate = batch[ord];
        if (candidate === undefined) continue;
        const began = performance.now();
        outcomes[ord] = this.#outcomeOf(candidate, row);
        candidate.comparedMs = performance.now() - began;
      }
    };
    compare();
    // Their keys were durable before they were: another collector may have made them just now.
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

  /** Keys that cannot be had must not stop the others. */
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
   * Of what is stored under the ids, only what a collector has sealed: an id that somebody has put there alone must not
   * answer for an event that is in no batch.
   */
  async #believed(connection: Connection, rows: readonly TextRow[]): Promise<readonly TextRow[]> {
    const { sealKey, onTrouble } = this.options;
    const keyOf = (lane?: string | null, batch?: string | null) => `${lane ?? ''} ${batch ?? ''}`;
    const named = new Map(rows.map(([, , , , lane, batch]) => [keyOf(lane, batch), [lane, batch]]));
    const numbers = [...named.values()].filter(([lane]) => typeof lane === 'string');
    const arrays = [0, 1].map((i) => int4Array(numbers.map((each) => Number(each[i]))));
    const sealed = new Map<string, Buffer>();
    for (const row of (await connection.query(SEALED, arrays)).rows) {
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
        const { rows } = await connection.query(STORED, await valuesOn(connection));
        return await this.#believed(connection, rows);
      } catch (error) {
        // What was new in the batch is stored by now.
        if (performance.now() < until && !(error instanceof Refused)) continue;
        throw new CommitUnknown('what the repeats of a batch say could not be compared', { cause: error });
      }
    }
  }
}

/** Whether an event is one of those that a batch was sealed with. Of a payload that was taken out only the rest is there. */
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
  // Without a constraint it is the table of the month that is not there.
  return code.startsWith('22') || (code === '23514' && constraint !== undefined);
}

/** Why a batch that is sent now would not be acknowledged. Asks, and stores nothing. */
export async function obstacleOn(
  connection: Pick<Connection, 'query'>,
  durability: LogRow['durability'],
): Promise<string | undefined> {
  const [row = []] = (await connection.query(OBSTACLES)).rows;
  const [, , , commit, messages, isAlone] = row;
  const weakness = weaknessOf(commit, messages);
  if (weakness !== undefined || durability === 'local') return weakness;
  return doubtIn(row) ?? (isAlone === 't' ? 'no synchronous standby is connected' : undefined);
}

/** @param obstacle of {@link obstacleOn}. */
export function notReplicated(obstacle: string): string {
  return `nothing would be replicated: ${obstacle}`;
}

/** @param row of STANDBYS. */
function doubtIn([names, inRecovery, isNew]: TextRow = []): string | undefined {
  if (names === '') return 'synchronous_standby_names is empty';
  // A session may know of a standby before the server waits for it.
  if (isNew === 't') return 'the settings of the server have just changed';
  return inRecovery !== 'f' ? 'the server is a standby' : undefined;
}

/** Milliseconds until then, and at least one. */
function left(until: number): number {
  return Math.max(1, until - performance.now());
}

/** Of {@link APPEND}, for the one batch of a lane. */
export function parametersOf(
  lane: number,
  sealKey: SealKey,
  candidate: Candidate,
  organisation: number,
): Parameter[] {
  const packed = pack([candidate], [organisation]);
  const { ids, organisations, ords, envelopes, salted, leaves, states } = packed;
  const seal = sealOf(sealKey, lane, 1, leaves);
  return [lane, 1, ids, organisations, ords, envelopes, salted, leaves, seal, true, states];
}

function pack(batch: readonly Candidate[], organisations: readonly number[], sealer?: RowSealer): Packed {
  const envelopes = batch.map((candidate) => {
    const envelope = Buffer.allocUnsafe(envelopeSize(candidate));
    encodeEnvelope(envelope, 0, candidate);
    return envelope;
  });
  const leaves = batch.map(({ commitment }, i) => {
    const leaf = Buffer.allocUnsafe(LEAF_BYTES);
    const envelope = envelopes[i] ?? Buffer.alloc(0);
    encodeLeaf(leaf, 0, envelope, sha256(envelope), commitment);
    return leaf;
  });
  return {
    ids: uuidArray(batch.map(({ eventId }) => eventId)),
    organisations: int4Array(organisations),
    ords: int2Array([...batch.keys()]),
    envelopes: byteaArray(envelopes),
    salted: byteaArray(
      batch.map((candidate, i) =>
        sealer && !isOwn(candidate) ? sealer.seal(candidate, leaves[i] ?? EMPTY_LEAF) : candidate.salted,
      ),
    ),
    leaves: byteaArray(leaves),
    states: int2Array(batch.map((candidate) => Number(sealer !== undefined && !isOwn(candidate)))),
  };
}

const EMPTY_LEAF = Buffer.alloc(LEAF_BYTES);

/** Entries of the log's own are not encrypted. */
function isOwn({ kind }: Candidate): boolean {
  return typeof kind === 'number';
}

/**
 * Of a repeat, held against what is stored under its id.
 * @param row its payload state, its envelope and its payload.
 */
function outcomeOf(
  candidate: Candidate,
  [state, envelope, salted]: TextRow,
  encryption: RowEncryption | undefined,
): Outcome {
  if (typeof envelope !== 'string') return 'unreadable';
  const stands = envelopeIn(bytesOf(envelope));
  // The id was made to stand for another event.
  const isSame = stands !== undefined && Buffer.from(stands.eventId).equals(candidate.eventId);
  if (!isSame || stands.organisation !== candidate.organisation) return 'unreadable';
  const row = bytesOf(salted ?? '');
  const place = state === '1' ? keyPlaceIn(row) : undefined;
  // Also while its key is still here: what it said is not to be told any more.
  if (state === '2' || (place && encryption?.isTaken(place.tag, candidate.organisation, place.place)))
    return 'erased';
  if (typeof salted !== 'string') return 'conflict';
  return repeatOutcome(stands, candidate, () => {
    const opened =
      state === '1' ? openRow(encryption?.stored, candidate.organisation, bytesOf(envelope), row) : row;
    return typeof opened === 'string' ? undefined : opened.subarray(SALT_BYTES);
  });
}
