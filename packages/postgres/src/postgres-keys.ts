/**
 * API keys in the database of a log, shared by all its collectors (SharedKeyStore of the collector's
 * store/contract).
 */
import { PROFILES } from '@clinical-events/protocol';
import {
  type ApiKey,
  KeyStoreError,
  PERMISSIONS,
  type RotationRefusal,
  type SharedKeyStore,
} from '@clinical-events/collector/store/contract/keys';
import { messageOf } from '@clinical-events/collector/system-code';
import { type Address, describeAddress } from './address.js';
import { bytesOf } from './binary.js';
import { type Connection, type Parameter, ReadingConnection, type TextRow } from './connection.js';
import { PostgresAccessLog } from './postgres-access-log.js';
import { sql } from './sql.js';

const COLUMNS = sql('api_key_columns').split(/,\s+/);

export class PostgresKeys implements SharedKeyStore {
  readonly accessLog: PostgresAccessLog;
  readonly #connection: ReadingConnection;

  constructor(private readonly address: Address) {
    this.#connection = new ReadingConnection(address, 'keys');
    this.accessLog = new PostgresAccessLog(this.#connection);
  }

  list(): Promise<ApiKey[]> {
    return this.#explained(async () => (await this.#connection.query(sql('api_keys'))).rows.map(apiKey));
  }

  version(): Promise<string> {
    return this.#explained(async () => {
      const { rows } = await this.#connection.query(sql('key_changes'));
      return rows[0]?.[0] ?? '';
    });
  }

  insert(key: ApiKey): Promise<void> {
    return this.#write(async (connection) => {
      await connection.query(sql('insert_api_key'), valuesOf(key));
    });
  }

  insertFirst(key: ApiKey): Promise<boolean> {
    return this.#write(async (connection) => {
      const { rows } = await connection.query(sql('has_api_keys'));
      if (rows.length > 0) return false;
      await connection.query(sql('insert_api_key'), valuesOf(key));
      return true;
    });
  }

  rotate(successor: ApiKey, oldExpiresAt: number, now: number): Promise<RotationRefusal | undefined> {
    return this.#write(async (connection) => {
      const oldId = successor.rotatedFrom ?? '';
      const [row] = (await connection.query(sql('api_key'), [oldId])).rows;
      if (row === undefined) return 'unknown';
      const old = apiKey(row);
      if (old.revokedAt !== undefined) return 'revoked';
      if (old.replacedBy !== undefined) return 'replaced';
      if (old.expiresAt !== undefined && old.expiresAt <= now) return 'expired';
      await connection.query(sql('insert_api_key'), valuesOf(successor));
      await connection.query(sql('replace_api_key'), [oldId, successor.keyId, oldExpiresAt]);
      return undefined;
    });
  }

  revoke(keyId: string, now: number): Promise<boolean> {
    return this.#write(
      async (connection) => (await connection.query(sql('revoke_api_key'), [keyId, now])).count > 0,
    );
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  #write<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#explained(() =>
      this.#connection.transaction(async (connection) => {
        await connection.query(sql('count_key_change'));
        return work(connection);
      }),
    );
  }

  /** @throws KeyStoreError that names the database. */
  async #explained<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof KeyStoreError) throw error;
      const reason = messageOf(error);
      const where = describeAddress(this.address);
      throw new KeyStoreError(`the API keys in ${where} cannot be used: ${reason}`, { cause: error });
    }
  }
}

function valuesOf(key: ApiKey): Parameter[] {
  return [
    key.keyId,
    Buffer.from(key.hash),
    key.organisation,
    key.permissions === 'all' ? 'all' : key.permissions.join(','),
    key.profile ?? null,
    key.rateLimit?.perSecond ?? null,
    key.rateLimit?.burst ?? null,
    key.clientCertificate ?? null,
    key.note,
    key.createdAt,
    key.expiresAt ?? null,
    key.revokedAt ?? null,
    key.rotatedFrom ?? null,
    key.replacedBy ?? null,
  ];
}

/** @throws KeyStoreError if the row has a value that this version never writes. */
function apiKey(row: TextRow): ApiKey {
  const value = (name: string) => row[COLUMNS.indexOf(name)] ?? undefined;
  const text = (name: string) => value(name) ?? '';
  const number = (name: string) => (value(name) === undefined ? undefined : Number(value(name)));
  const oneOf = <Name extends string>(known: readonly Name[], name: string): Name => {
    const found = known.find((candidate) => candidate === name);
    if (found !== undefined) return found;
    throw new KeyStoreError(`key ${text('key_id')} has "${name}", which this collector does not know`);
  };
  const permissions = text('permissions');
  const profile = value('profile');
  const perSecond = number('rate_per_second');
  return {
    keyId: text('key_id'),
    hash: bytesOf(text('hash')),
    organisation: text('organisation'),
    permissions:
      permissions === 'all' ? 'all' : permissions.split(',').map((kind) => oneOf(PERMISSIONS, kind)),
    profile: profile === undefined ? undefined : oneOf(PROFILES, profile),
    rateLimit: perSecond === undefined ? undefined : { perSecond, burst: number('rate_burst') ?? 1 },
    clientCertificate: value('client_certificate'),
    note: text('note'),
    createdAt: number('created_at') ?? 0,
    expiresAt: number('expires_at'),
    revokedAt: number('revoked_at'),
    rotatedFrom: value('rotated_from'),
    replacedBy: value('replaced_by'),
  };
}
