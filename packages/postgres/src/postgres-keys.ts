/** API keys in the database of a log: one set for all its collectors (src/store/contract/, SharedKeyStore). */
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

const COLUMNS = [
  ...['key_id', 'hash', 'organisation', 'permissions', 'profile', 'rate_per_second', 'rate_burst'],
  ...['client_certificate', 'note', 'created_at', 'expires_at', 'revoked_at', 'rotated_from', 'replaced_by'],
];
const LIST = `SELECT ${COLUMNS.join(', ')} FROM api_keys ORDER BY created_order`;
const ONE = `SELECT ${COLUMNS.join(', ')} FROM api_keys WHERE key_id = $1`;
const INSERT = `INSERT INTO api_keys (${COLUMNS.join(', ')}) VALUES (${COLUMNS.map((_, i) => `$${i + 1}`).join(', ')})`;
/** Its row is locked until the transaction ends: writers come one after the other. */
const CHANGED = 'UPDATE key_changes SET version = version + 1';
const REPLACE = `
UPDATE api_keys SET replaced_by = $2, expires_at = least($3::bigint, coalesce(expires_at, $3::bigint)) WHERE key_id = $1`;
const REVOKE = 'UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE key_id = $1';

export class PostgresKeys implements SharedKeyStore {
  readonly accessLog: PostgresAccessLog;
  readonly #connection: ReadingConnection;

  constructor(private readonly address: Address) {
    this.#connection = new ReadingConnection(address, 'keys');
    this.accessLog = new PostgresAccessLog(this.#connection);
  }

  list(): Promise<ApiKey[]> {
    return this.#told(async () => (await this.#connection.query(LIST)).rows.map(apiKey));
  }

  version(): Promise<string> {
    return this.#told(async () => {
      const { rows } = await this.#connection.query('SELECT version FROM key_changes');
      return rows[0]?.[0] ?? '';
    });
  }

  insert(key: ApiKey): Promise<void> {
    return this.#write(async (connection) => {
      await connection.query(INSERT, valuesOf(key));
    });
  }

  insertFirst(key: ApiKey): Promise<boolean> {
    return this.#write(async (connection) => {
      const { rows } = await connection.query('SELECT 1 FROM api_keys LIMIT 1');
      if (rows.length > 0) return false;
      await connection.query(INSERT, valuesOf(key));
      return true;
    });
  }

  rotate(successor: ApiKey, oldExpiresAt: number, now: number): Promise<RotationRefusal | undefined> {
    return this.#write(async (connection) => {
      const oldId = successor.rotatedFrom ?? '';
      const [row] = (await connection.query(ONE, [oldId])).rows;
      if (row === undefined) return 'unknown';
      const old = apiKey(row);
      if (old.revokedAt !== undefined) return 'revoked';
      if (old.replacedBy !== undefined) return 'replaced';
      if (old.expiresAt !== undefined && old.expiresAt <= now) return 'expired';
      await connection.query(INSERT, valuesOf(successor));
      await connection.query(REPLACE, [oldId, successor.keyId, oldExpiresAt]);
      return undefined;
    });
  }

  revoke(keyId: string, now: number): Promise<boolean> {
    return this.#write(async (connection) => (await connection.query(REVOKE, [keyId, now])).count > 0);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  #write<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#told(() =>
      this.#connection.transaction(async (connection) => {
        await connection.query(CHANGED);
        return work(connection);
      }),
    );
  }

  async #told<Result>(work: () => Promise<Result>): Promise<Result> {
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

/** A row as the contract wants it. What this version would never write is refused, not guessed at. */
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
