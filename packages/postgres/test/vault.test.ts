/** The suite of vaults over PostgreSQL, and what only a database of keys does. */
import { afterAll, beforeAll } from 'vitest';
import {
  mutantsFail,
  vaultConformance,
  type VaultPlace,
  type VaultSubject,
} from '../../collector/test/privacy/vault-conformance.js';
import type { KeyVault } from '../../collector/src/privacy/key-vault.js';
import type { Mutant } from '../../collector/test/privacy/vault-mutants.js';
import { parseAddress } from '../src/address.js';
import { PostgresVault } from '../src/postgres-vault.js';
import { PostgresServer } from './running/postgres-server.js';
import { Relay } from './running/relay.js';

let server: PostgresServer;
let places = 0;

beforeAll(async () => {
  server = await PostgresServer.start({ fsync: 'off' });
});
afterAll(() => server.remove());

const hex = (bytes: Buffer | undefined) => (bytes === undefined ? 'NULL' : `'\\x${bytes.toString('hex')}'`);

/** Of one log. */
class DatabasePlace implements VaultPlace {
  readonly #schema = `keys_${places++}`;
  readonly #table = `${this.#schema}.encryption_keys`;
  readonly #opened: KeyVault[] = [];

  private constructor(
    private readonly relay: Relay,
    private readonly mutant: Mutant | undefined,
  ) {}

  static async make(mutant?: Mutant): Promise<DatabasePlace> {
    return new DatabasePlace(await Relay.to(server.port), mutant);
  }

  readonly copies = [
    {
      get: async (name: string) => {
        const [row] = await server.query(`SELECT bytes FROM ${this.#table} WHERE name = '${name}'`);
        return (row?.['bytes'] ?? undefined) as Buffer | undefined;
      },
      /** As a writer does that keeps no rule. */
      put: async (name: string, bytes: Buffer | undefined) => {
        const newest = `(SELECT max(version) FROM ${this.#table})`;
        await server.query(`
          INSERT INTO ${this.#table} VALUES ('${name}', ${hex(bytes)}, ${newest} + 1)
          ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes, version = excluded.version;
          UPDATE ${this.#table} SET version = ${newest} + 1 WHERE name = 'marks'`);
      },
      leave: async () => {
        this.relay.refuse();
        return Promise.resolve(() => {
          this.relay.heal();
          return Promise.resolve();
        });
      },
    },
  ];

  async open(): Promise<KeyVault> {
    const address = parseAddress(
      `postgres://postgres@127.0.0.1:${this.relay.port}/postgres?schema=${this.#schema}`,
    );
    const vault = await PostgresVault.open(address, 'another cluster', { forWriting: true });
    this.#opened.push(vault);
    return this.mutant?.vault?.(vault, this) ?? vault;
  }

  readonly backUp = async () => {
    const rows = await server.query(`SELECT name, bytes, version FROM ${this.#table}`);
    return async () => {
      await server.query(`TRUNCATE ${this.#table}`);
      for (const { name, bytes, version } of rows)
        await server.query(
          `INSERT INTO ${this.#table} VALUES ('${String(name)}', ${hex((bytes ?? undefined) as Buffer | undefined)}, ${String(version)})`,
        );
    };
  };

  async close(): Promise<void> {
    await Promise.all(this.#opened.map((vault) => vault.close()));
    await this.relay.close();
  }
}

const subject: VaultSubject = {
  name: 'a PostgreSQL database',
  ...{ copies: 1, hasDisks: false, hasBackups: true },
  makePlace: (mutant) => DatabasePlace.make(mutant),
};

vaultConformance(subject);
mutantsFail(subject);
