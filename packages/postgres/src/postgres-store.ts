/** The driver of the store that writes to a PostgreSQL log, beside any number of others (src/store/contract/). */
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { ENTRY_KINDS, SALT_BYTES } from '@clinical-events/protocol';
import { headFields, headIn } from '@clinical-events/collector/tree/access-chain';
import { type AccessLogStore } from '@clinical-events/collector/store/contract/access-log';
import {
  type Candidate,
  keysUnwritable,
  NotCommitted,
  type Outcome,
  type SharedGauges,
} from '@clinical-events/collector/store/contract/events';
import type { HoldRecords, Requests } from '@clinical-events/collector/store/contract/requests';
import type {
  FoundLog,
  NotedKeys,
  Sequenced,
  SharedStore,
} from '@clinical-events/collector/store/contract/driver';
import type { SharedPublicKeys } from '@clinical-events/collector/store/contract/keys';
import { type Actions, eventsOf, takenBy } from '@clinical-events/collector/privacy/actions';
import type { PayloadKeys, TakenKeys } from '@clinical-events/collector/privacy/payload-keys';
import { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import { ActionRows, type EncryptedRow, keysOf, HoldRecordRows, RequestRows } from './action-rows.js';
import type { Address } from './address.js';
import { Connection, ReadingConnection } from './connection.js';
import { assertHasKey, type NewestRow, newestRows, openRow, RowSealer } from './encrypted-row.js';
import type { WrittenKeys } from './opened-keys.js';
import {
  APPEND,
  Lane,
  type LaneOptions,
  notReplicated,
  obstacleOn,
  OPEN,
  parametersOf,
  type RowEncryption,
} from './lane.js';
import { PostgresAccessLog } from './postgres-access-log.js';
import { PostgresCommitted } from './postgres-log.js';
import { PostgresTree } from './postgres-tree.js';
import { PostgresLogKeys, readLog, type LogRow } from './schema.js';
import type { SealKey } from './seal.js';
import { publicKeysOf, type SharedKeys } from './shared-keys.js';

/** Of one collector, on their way at a time: more than one hide the round trips of the others. */
const LANES = 4;

export interface PostgresStoreOptions {
  readonly address: Address;
  /** Batches that are on their way at a time. */
  readonly lanes?: number;
  /** Of this program, for people who look at the table of collectors. */
  readonly version: string;
  /** What the collectors of a log seal their batches with (seal.ts). */
  readonly sealKey: (ledgerId: string, shared: SharedKeys, entries: number) => Promise<SealKey>;
  /** @returns undefined where payloads are not encrypted. Without it they are not, and must not be. */
  readonly openKeys?: (log: KeysOfLog) => Promise<OpenedKeys | undefined>;
  /** Something is degraded, but nothing is lost and nothing is refused. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** See LaneOptions. */
  readonly onLost: (reason: string) => void;
  readonly gauges?: SharedGauges;
  /** Told what has its place by now. */
  readonly onSequenced?: (sequenced: Sequenced) => void;
}

export interface KeysOfLog extends NotedKeys {
  /** The cluster that the log is on. */
  readonly cluster: string;
}

interface OpenedKeys extends WrittenKeys {
  /** Of their database, as the log is to say. */
  readonly address: string;
}

export const ACTION = 'INSERT INTO actions (number, lane, batch) VALUES ($1, $2, 1)';
/** The collector that has lived longest of those that live: each is seen every ten seconds. */
const OLDEST = `
SELECT collector_id = $1::uuid FROM collectors
WHERE seen_at BETWEEN clock_timestamp() - interval '30 seconds' AND clock_timestamp() + interval '30 seconds'
ORDER BY started_at, collector_id LIMIT 1`;
/** Until what was committed has its place, in milliseconds. */
const PLACED_MS = 30_000;
const LOOK_MS = 100;
/** How long looks may find that nothing can be stored: a standby that is started again is away for a moment. */
const DOUBT_MS = 5000;
const BEGIN_ENCRYPTION = 'INSERT INTO encryption (keys) VALUES ($1) ON CONFLICT DO NOTHING';
export const REGISTER = `INSERT INTO collectors (collector_id, host, pid, version) VALUES ($1::uuid, $2, $3, $4)
ON CONFLICT DO NOTHING`;
export const ORGANISATION = `
WITH made AS (INSERT INTO organisations (name) VALUES ($1) ON CONFLICT (name) DO NOTHING RETURNING organisation_id)
SELECT organisation_id FROM made UNION ALL SELECT organisation_id FROM organisations WHERE name = $1 LIMIT 1`;

const HEAD = 'SELECT size, own_entries, bytes, access_lines, access_head FROM heads';
/** A head of fewer lines than one that is in the log must not follow it. */
const ACCESS_HEAD = 'UPDATE heads SET access_lines = $1, access_head = $2 WHERE access_lines < $1';

export class PostgresStore implements SharedStore {
  readonly concurrency: number;
  readonly outlivesDoubt = true;
  /** What has its place, on the connection that the tree is on. */
  readonly committed: PostgresCommitted;
  readonly tree: PostgresTree;
  readonly publicKeys: SharedPublicKeys;
  readonly accessLog: AccessLogStore;
  readonly requests: Requests;
  readonly holdRecords: HoldRecords;
  readonly #control: ReadingConnection;
  /** What is asked on it waits for no standby. To open a lane is a commit, and the control connection commits too. */
  readonly #looking: ReadingConnection;
  #isLooking = false;
  /** Since when no look, and no batch, has shown that events can be stored; and the newest reason. */
  #doubtedAt: number | undefined;
  #doubt: unknown;
  readonly #free: Lane[];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  readonly #lanes: readonly Lane[];
  #isRefreshing = false;

  private constructor(
    { lanes = LANES, onSequenced }: PostgresStoreOptions,
    readonly log: LogRow,
    private readonly laneOptions: LaneOptions,
    readonly opened: FoundLog,
    /** By their kind, the bodies of the newest entries of the log's own. */
    readonly newestOwn: ReadonlyMap<number, Buffer>,
    private readonly written: WrittenKeys | undefined,
    private readonly actionRows: ActionRows,
    control: ReadingConnection,
  ) {
    const { durability } = log;
    const { collectorId, sealKey } = laneOptions;
    this.concurrency = lanes;
    this.#control = control;
    this.#looking = new ReadingConnection(laneOptions.address, `look of ${collectorId}`);
    this.requests = new RequestRows(this.#control);
    this.holdRecords = new HoldRecordRows(this.#control);
    this.committed = new PostgresCommitted(this.#control, {
      ...{
        durability,
        collectorId,
        sealKey,
        gauges: laneOptions.gauges,
        onTrouble: laneOptions.onTrouble,
        ...(onSequenced && { onSequenced }),
      },
    });
    this.tree = new PostgresTree(this.#control);
    this.publicKeys = publicKeysOf(new PostgresLogKeys(this.#control));
    this.accessLog = new PostgresAccessLog(this.#control);
    this.#lanes = Array.from({ length: lanes }, () => new Lane(laneOptions));
    this.#free = [...this.#lanes];
  }

  /**
   * On return the database holds a log that this collector knows, and may write to, and no key that an action destroys is in
   * the database of keys.
   * @throws Unreachable, SchemaUnfit.
   */
  static async open(options: PostgresStoreOptions): Promise<PostgresStore> {
    const { address, onTrouble, onLost, gauges } = options;
    const collectorId = randomUUID();
    const connection = await Connection.open(address, 'start');
    const control = new ReadingConnection(address, `tree of ${collectorId}`);
    try {
      const log = await readLog(connection);
      const register = (to: Connection) =>
        to.transaction(async () => {
          // No event hangs on it: a standby that is away does not keep a collector from starting.
          await to.query('SET LOCAL synchronous_commit = local');
          await to.query(REGISTER, [collectorId, os.hostname(), process.pid, options.version]);
        });
      await register(connection);
      const { ledgerId, durability } = log;
      const [row = []] = (await connection.query(HEAD)).rows;
      const [entries = 0, own = 0, bytes = 0, lines = 0] = row.slice(0, 4).map(Number);
      // First: a start that is refused leaves no key of seals behind.
      const newest = await newestRows(connection);
      const written = await openKeys(connection, log, { isNew: entries === 0, newest }, options.openKeys);
      const keys = written?.keys;
      const sealKey = await options.sealKey(ledgerId, new PostgresLogKeys(connection), entries);
      const actionRows = new ActionRows(control, sealKey);
      await actionRows.refresh();
      const { actions } = actionRows;
      const taken = keys ? [...actions.taken('all'), ...takenBy(keys.stored.noted())] : [];
      await keys?.destroy(taken);
      if (keys !== undefined) assertHasKey(keys.stored, newest, taken);
      const common = {
        ...{ encryption: written && encryptionBy(written, actionRows) },
        address,
        collectorId,
        ledgerId,
        durability,
        sealKey,
        onTrouble,
        onLost,
        gauges,
        register,
      };
      const head = { lines, head: row[4] ?? '' };
      const newestOwn = new Map<number, Buffer>();
      if (lines > 0) newestOwn.set(ENTRY_KINDS.accessLogHead, Buffer.from(JSON.stringify(headFields(head))));
      const found = { ledgerId, entries, events: entries - own, bytes };
      return new PostgresStore(
        options,
        log,
        { ...common, organisationId: organisations() },
        found,
        newestOwn,
        written,
        actionRows,
        control,
      );
    } catch (error) {
      await control.close();
      throw error;
    } finally {
      await connection.close();
    }
  }

  /** Undefined where payloads are not encrypted. */
  get keys(): PayloadKeys | undefined {
    return this.written?.keys;
  }

  async append(batch: readonly Candidate[]): Promise<Outcome[]> {
    if (batch.length === 0) return [];
    return this.#withLane(async (lane) => {
      const began = performance.now();
      const outcomes = await lane.append(batch);
      this.#doubtedAt = undefined;
      this.laneOptions.gauges?.committed(performance.now() - began);
      return outcomes;
    });
  }

  /**
   * Stores a head of the access log, in a lane that it has for itself. Collectors do it one after the other; what says
   * less than the newest head in the log is not stored, and need not be.
   * @param entry with the head as its body. @throws Refused, Lost.
   */
  async appendAccessHead(entry: Candidate): Promise<void> {
    const head = headIn(Buffer.from(entry.salted.subarray(SALT_BYTES)));
    if (head === undefined) throw new RangeError('the entry holds no head of an access log');
    await this.#control.transaction(async (connection) => {
      const { count } = await connection.query(ACCESS_HEAD, [head.lines, head.head]);
      if (count > 0) await this.#appendAlone(connection, entry);
    });
  }

  /** In the only batch of a lane of its own. @returns the lane. */
  async #appendAlone(connection: Connection, entry: Candidate): Promise<number> {
    const { collectorId, sealKey, organisationId } = this.laneOptions;
    const organisation = await organisationId(connection, entry.organisation);
    const [row] = (await connection.query(OPEN, [collectorId])).rows;
    const lane = Number(row?.[0]);
    await connection.query(APPEND, parametersOf(lane, sealKey, entry, organisation));
    return lane;
  }

  /** Those that are in the log, as they were known last. */
  get actions(): Actions {
    return this.actionRows.actions;
  }

  /**
   * Stores an action, in a lane that it has for itself. On return it has its place in the log, and is among `actions`.
   * @throws Refused where another collector has added one that is not known here yet; Lost, NotCommitted, CommitUnknown.
   */
  async appendAction(entry: Candidate): Promise<void> {
    const number = this.actionRows.known + 1;
    await this.#control.transaction(async (connection) => {
      await connection.query(ACTION, [number, await this.#appendAlone(connection, entry)]);
    });
    // What was committed before it is replicated with it.
    await this.#withLane((lane) => lane.barrier());
    for (const until = performance.now() + PLACED_MS; ;) {
      await this.actionRows.refresh();
      if (this.actionRows.known >= number) return;
      if (performance.now() > until) throw new Error('an action is stored, and has no place in the log yet');
      await sleep(LOOK_MS);
    }
  }

  /** Whether it is on this collector to do what was asked for: one of all does. */
  async isOnUs(): Promise<boolean> {
    const { rows } = await this.#control.query(OLDEST, [this.laneOptions.collectorId]);
    return rows[0]?.[0] === 't';
  }

  /** On return the actions of others are known. */
  refreshActions(): Promise<void> {
    return this.actionRows.refresh();
  }

  /**
   * By what keys events are encrypted. What a row says of its key is in no leaf: those that it does not open are left out.
   * @throws when it cannot be told, since the database of the keys is away.
   */
  async keysOf(sequences: SequenceSet): Promise<TakenKeys[]> {
    const { encryption } = this.laneOptions;
    if (encryption === undefined) return [];
    const away = await encryption.refresh().then(
      () => undefined,
      (cause: unknown) => new Error('the keys of payloads cannot be read', { cause }),
    );
    const [[size] = []] = (await this.#control.query(HEAD)).rows;
    const log = SequenceSet.ofStretches([{ first: 1, end: Number(size) + 1 }]);
    const isOpened = ({ organisation, envelope, row }: EncryptedRow) => {
      const opened = openRow(encryption.stored, organisation, envelope, row);
      if (opened === 'no-key' && away !== undefined) throw away;
      return Buffer.isBuffer(opened);
    };
    return keysOf(this.#control, sequences.within(log), isOpened, true);
  }

  /** Of each of some lists of keys those by which events of the log are encrypted that no action has erased yet. */
  async keysIn(lists: readonly (readonly TakenKeys[])[], signal: AbortSignal): Promise<TakenKeys[][]> {
    const found: TakenKeys[][] = [];
    for (const list of lists) {
      const places = Map.groupBy(list, ({ tag, organisation }) => `${tag} ${organisation}`);
      const wanted = eventsOf(list).without(this.actions.erased);
      const isNamed = ({ organisation, key }: EncryptedRow) =>
        places.get(`${key.tag} ${organisation}`)?.some((keys) => keys.places?.has(key.place)) === true;
      found.push(signal.aborted ? [] : await keysOf(this.#control, wanted, isNamed));
    }
    return found;
  }

  /** What others have done to the keys is asked for, and whether the server would have an event replicated. */
  look(): void {
    this.#refreshKeys();
    if (!this.#isLooking) this.#lookAtServer().catch(() => undefined);
    if (this.#doubtedAt === undefined || performance.now() - this.#doubtedAt < DOUBT_MS) return;
    const cause = this.#doubt;
    if (typeof cause === 'string' && this.log.durability === 'replicated')
      this.laneOptions.gauges?.replicated(false);
    const message = typeof cause === 'string' ? notReplicated(cause) : 'the database does not answer';
    throw new NotCommitted(message, { cause, reason: 'database_unavailable' });
  }

  async #lookAtServer(): Promise<void> {
    this.#isLooking = true;
    this.#doubtedAt ??= performance.now();
    try {
      this.#doubt = await obstacleOn(this.#looking, this.log.durability);
      if (this.#doubt === undefined) this.#doubtedAt = undefined;
    } catch (error) {
      this.#doubt = error;
    } finally {
      this.#isLooking = false;
    }
  }

  #refreshKeys(): void {
    const { encryption, onTrouble } = this.laneOptions;
    if (encryption === undefined || this.#isRefreshing) return;
    this.#isRefreshing = true;
    encryption
      .refresh()
      .catch((error: unknown) => onTrouble('the keys of payloads cannot be read', error))
      .finally(() => (this.#isRefreshing = false));
  }

  async prove(): Promise<void> {
    await this.proveKeys();
    await this.#withLane((lane) => lane.prove());
  }

  async proveKeys(): Promise<void> {
    try {
      await this.keys?.prove();
    } catch (error) {
      throw keysUnwritable(error);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.close()));
    await this.#control.close();
    await this.#looking.close();
    await this.written?.vault.close();
  }

  async #withLane<Result>(work: (lane: Lane) => Promise<Result>): Promise<Result> {
    const lane = this.#free.pop() ?? (await new Promise<Lane>((resolve) => this.#waiting.push(resolve)));
    try {
      return await work(lane);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(lane);
      else next(lane);
    }
  }
}

/** On return the log says where its keys are, durably, if it has any. */
async function openKeys(
  connection: Connection,
  { ledgerId, systemId, encryptionKeys }: LogRow,
  { isNew, newest }: { readonly isNew: boolean; readonly newest: readonly NewestRow[] },
  open: PostgresStoreOptions['openKeys'],
): Promise<WrittenKeys | undefined> {
  const isEncrypted = newest.some((row) => row.isEncrypted);
  const opened = await open?.({
    ...{ ledgerId, cluster: systemId, noted: encryptionKeys, isNew, isEncrypted },
  });
  if (opened === undefined) return undefined;
  await connection.query(BEGIN_ENCRYPTION, [opened.address]);
  return opened;
}

function encryptionBy({ keys }: WrittenKeys, rows: ActionRows): RowEncryption {
  const { actions } = rows;
  return {
    sealer: new RowSealer(keys),
    stored: keys.stored,
    isTaken: (tag, organisation, place) => actions.isTaken(tag, organisation, place),
    save: () => keys.flush(),
    // An action is in the log before it destroys a key: so it is known of one that is gone.
    async refresh() {
      await keys.refresh();
      await rows.refresh();
    },
  };
}

/** The numbers of organisations, each asked for once on a connection: another server may have given others. */
function organisations(): LaneOptions['organisationId'] {
  const knownOn = new WeakMap<Connection, Map<string, number>>();
  return (connection, name) => {
    const known = knownOn.get(connection) ?? new Map<string, number>();
    knownOn.set(connection, known);
    return known.get(name) ?? ask(connection, name, known);
  };

  async function ask(connection: Connection, name: string, known: Map<string, number>): Promise<number> {
    for (;;) {
      const [row] = (await connection.query(ORGANISATION, [name])).rows;
      // Another collector was making it while this one asked.
      if (row === undefined) continue;
      const id = Number(row[0]);
      known.set(name, id);
      return id;
    }
  }
}
