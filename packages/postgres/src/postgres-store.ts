/**
 * The store of a PostgreSQL log, which any number of collectors write to (SharedStore of the collector's
 * store/contract).
 */
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
  appendAlone,
  Lane,
  type LaneOptions,
  notReplicated,
  obstacleOn,
  type RowEncryption,
} from './lane.js';
import { PostgresAccessLog } from './postgres-access-log.js';
import { PostgresCommitted } from './postgres-log.js';
import { PostgresTree } from './postgres-tree.js';
import { PostgresLogKeys, readLog, type LogRow } from './schema.js';
import type { SealKey } from './seal.js';
import { publicKeysOf, type SharedKeys } from './shared-keys.js';
import { sql } from './sql.js';

/** Number of lanes of a collector: several lanes hide each other's round trips. */
const LANES = 4;

export interface PostgresStoreOptions {
  readonly address: Address;
  /** Batches in flight at a time. */
  readonly lanes?: number;
  /** Version of this program, for the table `collectors`. */
  readonly version: string;
  /** Opens the key with which the collectors of the log seal their batches (seal.ts). */
  readonly sealKey: (ledgerId: string, shared: SharedKeys, entries: number) => Promise<SealKey>;
  /** Resolves to undefined if payloads are not encrypted. Leave it out for a log that is not encrypted. */
  readonly openKeys?: (log: KeysOfLog) => Promise<OpenedKeys | undefined>;
  /** Called when something is degraded, but nothing is lost or refused. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** See LaneOptions. */
  readonly onLost: (reason: string) => void;
  readonly gauges?: SharedGauges;
  /** Called with the end of the log. */
  readonly onSequenced?: (sequenced: Sequenced) => void;
}

export interface KeysOfLog extends NotedKeys {
  /** System identifier of the log's database cluster. */
  readonly cluster: string;
}

interface OpenedKeys extends WrittenKeys {
  /** Address of the key database, for the table `encryption`. */
  readonly address: string;
}

/** Deadline for a committed batch to get its place, in milliseconds. */
const PLACED_MS = 30_000;
const LOOK_MS = 100;
/** Time for which looks may fail before the store refuses events: a restarting standby is briefly away. */
const DOUBT_MS = 5000;

export class PostgresStore implements SharedStore {
  readonly concurrency: number;
  readonly outlivesDoubt = true;
  /** Entries that have a place; uses the connection of the tree. */
  readonly committed: PostgresCommitted;
  readonly tree: PostgresTree;
  readonly publicKeys: SharedPublicKeys;
  readonly accessLog: AccessLogStore;
  readonly requests: Requests;
  readonly holdRecords: HoldRecords;
  readonly #control: ReadingConnection;
  /**
   * The connection of looks. It never commits, so it never waits for a standby. Lanes and the control
   * connection commit.
   */
  readonly #looking: ReadingConnection;
  #isLooking = false;
  /** The time since which no look and no batch has shown that events can be stored, and the newest reason. */
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
    /** The newest body of each kind of the log's own entries. */
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
   * On return this collector can write to the log, and the key database has no key that an action destroys.
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
          // No event depends on this row: a collector starts even while the standby is away.
          await to.query('SET LOCAL synchronous_commit = local');
          const values = [collectorId, os.hostname(), process.pid, options.version];
          await to.query(sql('register_collector'), values);
        });
      await register(connection);
      const { ledgerId, durability } = log;
      const [row = []] = (await connection.query(sql('head'))).rows;
      const [entries = 0, own = 0, bytes = 0, lines = 0] = row.slice(0, 4).map(Number);
      // This comes before the seal key, because a refused start must not create one.
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

  /** Undefined if payloads are not encrypted. */
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
   * Stores a head of the access log in a separate lane. Collectors take turns. A head with fewer lines than
   * the newest one in the log is not stored.
   * @param entry with the head as its body. @throws Refused, Lost.
   */
  async appendAccessHead(entry: Candidate): Promise<void> {
    const head = headIn(Buffer.from(entry.salted.subarray(SALT_BYTES)));
    if (head === undefined) throw new RangeError('the entry holds no head of an access log');
    await this.#control.transaction(async (connection) => {
      const { count } = await connection.query(sql('advance_access_head'), [head.lines, head.head]);
      if (count > 0) await this.#appendAlone(connection, entry);
    });
  }

  /** @returns the lane. */
  async #appendAlone(connection: Connection, entry: Candidate): Promise<number> {
    const { collectorId, sealKey, organisationId } = this.laneOptions;
    const organisation = await organisationId(connection, entry.organisation);
    return appendAlone(connection, collectorId, sealKey, entry, organisation);
  }

  /** The actions of the log at the last refresh. */
  get actions(): Actions {
    return this.actionRows.actions;
  }

  /**
   * Stores an action in a separate lane. On return it has its place in the log, and `actions` includes it.
   * @throws Refused if another collector added an action that is unknown here; Lost, NotCommitted,
   *   CommitUnknown.
   */
  async appendAction(entry: Candidate): Promise<void> {
    const number = this.actionRows.known + 1;
    await this.#control.transaction(async (connection) => {
      await connection.query(sql('add_action'), [number, await this.#appendAlone(connection, entry)]);
    });
    // A replicated barrier proves that earlier commits are replicated too.
    await this.#withLane((lane) => lane.barrier());
    for (const until = performance.now() + PLACED_MS; ;) {
      await this.actionRows.refresh();
      if (this.actionRows.known >= number) return;
      if (performance.now() > until) throw new Error('the action is stored, but has no place in the log yet');
      await sleep(LOOK_MS);
    }
  }

  /** Whether this collector handles requests: the oldest running one does. */
  async isOnUs(): Promise<boolean> {
    const { rows } = await this.#control.query(sql('is_oldest'), [this.laneOptions.collectorId]);
    return rows[0]?.[0] === 't';
  }

  /** On return the actions of other collectors are known. */
  refreshActions(): Promise<void> {
    return this.actionRows.refresh();
  }

  /**
   * The keys that encrypt events. No leaf covers the key that a row names, so a row that this key does not
   * open is left out.
   * @throws if the key database is unreachable and a key is unknown.
   */
  async keysOf(sequences: SequenceSet): Promise<TakenKeys[]> {
    const { encryption } = this.laneOptions;
    if (encryption === undefined) return [];
    const away = await encryption.refresh().then(
      () => undefined,
      (cause: unknown) => new Error('the keys of payloads cannot be read', { cause }),
    );
    const [[size] = []] = (await this.#control.query(sql('head'))).rows;
    const log = SequenceSet.ofStretches([{ first: 1, end: Number(size) + 1 }]);
    const isOpened = ({ organisation, envelope, row }: EncryptedRow) => {
      const opened = openRow(encryption.stored, organisation, envelope, row);
      if (opened === 'no-key' && away !== undefined) throw away;
      return Buffer.isBuffer(opened);
    };
    return keysOf(this.#control, sequences.within(log), isOpened, true);
  }

  /** Selects from each list the keys of events in the log that no action has erased. */
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

  /**
   * Starts reading other collectors' changes to the keys, and whether the server would replicate an event.
   * @throws NotCommitted if earlier looks failed for longer than DOUBT_MS.
   */
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

/** On return the table `encryption` durably names the key database, if payloads are encrypted. */
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
  await connection.query(sql('begin_encryption'), [opened.address]);
  return opened;
}

function encryptionBy({ keys }: WrittenKeys, rows: ActionRows): RowEncryption {
  const { actions } = rows;
  return {
    sealer: new RowSealer(keys),
    stored: keys.stored,
    isTaken: (tag, organisation, place) => actions.isTaken(tag, organisation, place),
    save: () => keys.flush(),
    // An action is in the log before it destroys a key, so the action of a missing key is known after this.
    async refresh() {
      await keys.refresh();
      await rows.refresh();
    },
  };
}

/** Caches the numbers of organisations for each connection: another server may have other numbers. */
function organisations(): LaneOptions['organisationId'] {
  const knownOn = new WeakMap<Connection, Map<string, number>>();
  return (connection, name) => {
    const known = knownOn.get(connection) ?? new Map<string, number>();
    knownOn.set(connection, known);
    return known.get(name) ?? ask(connection, name, known);
  };

  async function ask(connection: Connection, name: string, known: Map<string, number>): Promise<number> {
    for (;;) {
      const [row] = (await connection.query(sql('organisation_id'), [name])).rows;
      // Another collector inserted the name during this query.
      if (row === undefined) continue;
      const id = Number(row[0]);
      known.set(name, id);
      return id;
    }
  }
}
