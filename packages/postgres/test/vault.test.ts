/** The suite of vaults over PostgreSQL, and what only a database of keys does. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  mutantsFail,
  vaultConformance,
  type VaultPlace,
  type VaultSubject,
} from '../../collector/test/privacy/vault-conformance.js';
import { type KeyVault, VaultAway } from '../../collector/src/privacy/key-vault.js';
import { keysConformance } from '../../collector/test/privacy/keys-conformance.js';
import { bucket, epochKey } from '../../collector/test/privacy/vault-records.js';
import type { Mutant } from '../../collector/test/privacy/vault-mutants.js';
import { parseAddress } from '../src/address.js';
import { PostgresVault } from '../src/postgres-vault.js';
import { runs } from '../../../test/property-runs.js';
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
    readonly relay: Relay,
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
      /** As a writer that ignores the rules. */
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
keysConformance(subject, runs);

test('[R-1323] a write whose commit was not answered is committed again', async () => {
  const place = await DatabasePlace.make();
  const vault = await place.open();
  const epoch = epochKey(1);
  expect(await vault.write(epoch.name, epoch.bytes, 0)).toBe('written');
  const { name, bytes } = bucket(1, { generation: 1 });
  const { relay } = place;
  relay.toServer = (sent) => {
    // The server has it, and its answer does not arrive.
    if (sent.includes('COMMIT')) relay.toClient = () => Buffer.alloc(0);
    return sent;
  };
  const written = vault.write(name, bytes, 0).catch((error: unknown) => error);
  await expect.poll(() => place.copies[0]?.get(name)).toEqual(bytes);
  relay.refuse();
  expect(await written).toBeInstanceOf(VaultAway);
  relay.toServer = relay.toClient = (passed) => passed;
  relay.heal();
  const { version } = vault;
  expect(await vault.write(name, bytes, 0)).toBe('written');
  // Its own writes since: one that was not answered, and one that was.
  expect(Number(vault.version) - Number(version)).toBe(4);
  expect(await vault.write(name, bytes, 0)).toBe('written');
  expect(Number(vault.version) - Number(version)).toBe(4);
  await place.close();
});
