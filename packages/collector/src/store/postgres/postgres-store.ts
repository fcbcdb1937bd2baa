/** The driver of the store that writes to a PostgreSQL log, beside any number of others (src/store/contract.ts). */
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import type { Candidate, Outcome, Store } from '../contract.js';
import type { Address } from './address.js';
import { Connection } from './connection.js';
import { Lane, type LaneOptions } from './lane.js';
import { readLog, type LogRow } from './schema.js';

export interface PostgresStoreOptions {
  readonly address: Address;
  /** Batches that are on their way at a time. */
  readonly lanes: number;
  /** Of this program, for people who look at the table of collectors. */
  readonly version: string;
  /** Something is degraded, but nothing is lost and nothing is refused. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

const REGISTER = `INSERT INTO collectors (collector_id, host, pid, version) VALUES ($1::uuid, $2, $3, $4)`;
const ORGANISATION = `
WITH made AS (INSERT INTO organisations (name) VALUES ($1) ON CONFLICT (name) DO NOTHING RETURNING organisation_id)
SELECT organisation_id FROM made UNION ALL SELECT organisation_id FROM organisations WHERE name = $1 LIMIT 1`;

export class PostgresStore implements Store {
  readonly #free: Lane[];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  readonly #lanes: readonly Lane[];

  private constructor(
    { lanes }: PostgresStoreOptions,
    readonly log: LogRow,
    laneOptions: LaneOptions,
  ) {
    this.#lanes = Array.from({ length: lanes }, () => new Lane(laneOptions));
    this.#free = [...this.#lanes];
  }

  /**
   * On return the database holds a log that this collector knows, and may write to.
   * @throws Unreachable, SchemaUnfit.
   */
  static async open(options: PostgresStoreOptions): Promise<PostgresStore> {
    const { address, onTrouble } = options;
    const connection = await Connection.open(address, 'start');
    try {
      const log = await readLog(connection);
      const collectorId = randomUUID();
      await connection.query(REGISTER, [collectorId, os.hostname(), process.pid, options.version]);
      const { ledgerId, durability } = log;
      const common = { address, collectorId, shard: 0, ledgerId, durability, onTrouble };
      return new PostgresStore(options, log, { ...common, organisationId: organisations() });
    } finally {
      await connection.close();
    }
  }

  async append(batch: readonly Candidate[]): Promise<Outcome[]> {
    if (batch.length === 0) return [];
    return this.#withLane((lane) => lane.append(batch));
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

/** The numbers of organisations, each asked for once. */
function organisations(): LaneOptions['organisationId'] {
  const known = new Map<string, number>();
  return (connection, name) => known.get(name) ?? ask(connection, name);

  async function ask(connection: Connection, name: string): Promise<number> {
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
