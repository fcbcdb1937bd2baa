/** The driver of the store that writes to a PostgreSQL log, beside any number of others (src/store/contract.ts). */
import { randomUUID, type KeyObject } from 'node:crypto';
import os from 'node:os';
import { ENTRY_KINDS, SALT_BYTES } from '@clinical-events/protocol';
import { headFields, headIn } from '../../integrity/access-chain.js';
import type { AccessLogStore, Candidate, Outcome, SharedGauges, SharedKeys, Store } from '../contract.js';
import type { Address } from './address.js';
import { Connection, ReadingConnection } from './connection.js';
import { APPEND, Lane, type LaneOptions, OPEN, parametersOf } from './lane.js';
import { PostgresAccessLog } from './postgres-access-log.js';
import { PostgresCommitted } from './postgres-log.js';
import { PostgresTree } from './postgres-tree.js';
import { PostgresLogKeys, readLog, type LogRow } from './schema.js';
import type { Sequenced } from './sequencing.js';

/** Of one collector, on their way at a time: more than one hide the round trips of the others. */
const LANES = 4;

export interface PostgresStoreOptions {
  readonly address: Address;
  /** Batches that are on their way at a time. */
  readonly lanes?: number;
  /** Of this program, for people who look at the table of collectors. */
  readonly version: string;
  /** What the collectors of a log seal their batches with (seal.ts). */
  readonly sealKey: (ledgerId: string, shared: SharedKeys) => Promise<KeyObject>;
  /** Something is degraded, but nothing is lost and nothing is refused. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** See LaneOptions. */
  readonly onLost: (reason: string) => void;
  readonly gauges?: SharedGauges;
  /** Told what has its place by now. */
  readonly onSequenced?: (sequenced: Sequenced) => void;
}

const REGISTER = `INSERT INTO collectors (collector_id, host, pid, version) VALUES ($1::uuid, $2, $3, $4)
ON CONFLICT DO NOTHING`;
const ORGANISATION = `
WITH made AS (INSERT INTO organisations (name) VALUES ($1) ON CONFLICT (name) DO NOTHING RETURNING organisation_id)
SELECT organisation_id FROM made UNION ALL SELECT organisation_id FROM organisations WHERE name = $1 LIMIT 1`;

const HEAD = 'SELECT size, own_entries, bytes, access_lines, access_head FROM heads';
/** A head of fewer lines than one that is in the log must not follow it. */
const ACCESS_HEAD = 'UPDATE heads SET access_lines = $1, access_head = $2 WHERE access_lines < $1';

/** As a start finds the log. */
export interface FoundLog {
  readonly ledgerId: string;
  readonly events: number;
  readonly entries: number;
  readonly bytes: number;
}

export class PostgresStore implements Store {
  readonly concurrency: number;
  readonly outlivesDoubt = true;
  /** What has its place, on the connection that the tree is on. */
  readonly committed: PostgresCommitted;
  readonly tree: PostgresTree;
  readonly publicKeys: SharedKeys;
  readonly accessLog: AccessLogStore;
  readonly #control: ReadingConnection;
  readonly #free: Lane[];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  readonly #lanes: readonly Lane[];

  private constructor(
    { address, lanes = LANES, onSequenced }: PostgresStoreOptions,
    readonly log: LogRow,
    private readonly laneOptions: LaneOptions,
    readonly opened: FoundLog,
    /** By their kind, the bodies of the newest entries of the log's own. */
    readonly newestOwn: ReadonlyMap<number, Buffer>,
  ) {
    const { durability } = log;
    const { collectorId, sealKey } = laneOptions;
    this.concurrency = lanes;
    this.#control = new ReadingConnection(address, `tree of ${collectorId}`);
    this.committed = new PostgresCommitted(this.#control, {
      ...{
        durability,
        collectorId,
        sealKey,
        gauges: laneOptions.gauges,
        ...(onSequenced && { onSequenced }),
      },
    });
    this.tree = new PostgresTree(this.#control);
    this.publicKeys = new PostgresLogKeys(this.#control);
    this.accessLog = new PostgresAccessLog(this.#control);
    this.#lanes = Array.from({ length: lanes }, () => new Lane(laneOptions));
    this.#free = [...this.#lanes];
  }

  /**
   * On return the database holds a log that this collector knows, and may write to.
   * @throws Unreachable, SchemaUnfit.
   */
  static async open(options: PostgresStoreOptions): Promise<PostgresStore> {
    const { address, onTrouble, onLost, gauges } = options;
    const connection = await Connection.open(address, 'start');
    try {
      const log = await readLog(connection);
      const collectorId = randomUUID();
      const register = (to: Connection) =>
        to.transaction(async () => {
          // No event hangs on it: a standby that is away does not keep a collector from starting.
          await to.query('SET LOCAL synchronous_commit = local');
          await to.query(REGISTER, [collectorId, os.hostname(), process.pid, options.version]);
        });
      await register(connection);
      const { ledgerId, durability } = log;
      const sealKey = await options.sealKey(ledgerId, new PostgresLogKeys(connection));
      const common = {
        address,
        collectorId,
        shard: 0,
        ledgerId,
        durability,
        sealKey,
        onTrouble,
        onLost,
        gauges,
        register,
      };
      const [row = []] = (await connection.query(HEAD)).rows;
      const [entries = 0, own = 0, bytes = 0, lines = 0] = row.slice(0, 4).map(Number);
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
      );
    } finally {
      await connection.close();
    }
  }

  async append(batch: readonly Candidate[]): Promise<Outcome[]> {
    if (batch.length === 0) return [];
    return this.#withLane(async (lane) => {
      const began = performance.now();
      const outcomes = await lane.append(batch);
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
    const { collectorId, shard, organisationId } = this.laneOptions;
    await this.#control.transaction(async (connection) => {
      const { count } = await connection.query(ACCESS_HEAD, [head.lines, head.head]);
      if (count === 0) return;
      const organisation = await organisationId(connection, entry.organisation);
      const [lane] = (await connection.query(OPEN, [collectorId, shard])).rows;
      await connection.query(APPEND, parametersOf(Number(lane?.[0]), this.laneOptions, entry, organisation));
    });
  }

  /** A lane looks at its server with every batch. */
  look(): void {
    return;
  }

  prove(): Promise<void> {
    return this.#withLane((lane) => lane.barrier());
  }

  async close(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.close()));
    await this.#control.close();
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
