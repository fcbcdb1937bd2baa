/**
 * The address of a PostgreSQL log: `postgres://user@host1:5432,host2:5432/database?option=value`, in the
 * syntax of libpq (PostgreSQL documentation, 32.1.1.2). Neither `URL` nor node-postgres supports several
 * hosts.
 */
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { isLoopback } from '@clinical-events/collector/loopback';

export interface Host {
  /** A name, an address, or the directory of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

export interface Address {
  readonly hosts: readonly Host[];
  readonly database: string;
  /** The role. Its password is in PGPASSWORD or in libpq's password file. */
  readonly user: string;
  /** The schema that holds the log. */
  readonly schema: string;
  /** Attempts, in order: a server may refuse a session that is not encrypted. */
  readonly ssl: readonly Encryption[];
}

/** Reads its files at each call: certificates are replaced while collectors run. @throws AddressFault. */
export type Encryption = (() => ConnectionOptions) | false;

/** Thrown if the text is not an address of a log. The message does not repeat the text. */
class AddressFault extends Error {
  override name = 'AddressFault';
}

const SCHEMES = ['postgres://', 'postgresql://'];
const DEFAULT_PORT = 5432;
const NAME = /^[a-z_][a-z0-9_]{0,62}$/;
const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];
const OPTIONS = ['schema', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'target_session_attrs'];

/** Whether a `--store` names a PostgreSQL log. */
function isPostgres(store: string): boolean {
  return SCHEMES.some((scheme) => store.startsWith(scheme));
}

/** @throws AddressFault with the reason. */
export function parseAddress(text: string): Address {
  if (!isPostgres(text)) throw new AddressFault('it does not begin with postgres://');
  const rest = text.slice(text.indexOf('://') + 3);
  const [, authority = '', database = '', query = ''] =
    /^([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(rest) ?? [];
  const at = authority.lastIndexOf('@');
  const user = at < 0 ? '' : authority.slice(0, at);
  // It would be visible in process lists and in reports of the configuration.
  if (user.includes(':'))
    throw new AddressFault(
      'it holds a password, which must be in PGPASSWORD or in the file that PGPASSFILE names',
    );
  const hosts = authority
    .slice(at + 1)
    .split(',')
    .map(hostOf);
  const options = optionsOf(query);
  const schema = options.get('schema') ?? 'collector';
  if (!NAME.test(schema)) throw new AddressFault('schema is not a lower-case name of letters, digits and _');
  const attributes = options.get('target_session_attrs') ?? 'read-write';
  if (attributes !== 'read-write' && attributes !== 'primary')
    throw new AddressFault(
      'target_session_attrs: only read-write is possible, events are written to a primary',
    );
  return {
    hosts,
    database: decoded(database) || 'collector',
    user: decoded(user) || 'collector',
    schema,
    ssl: sslOf(options, hosts),
  };
}

/** The reason why the text is not an address; undefined if it is one. */
export function addressFault(text: string): string | undefined {
  try {
    parseAddress(text);
    return undefined;
  } catch (error) {
    if (!(error instanceof AddressFault)) throw error;
    return error.message;
  }
}

/** The address without user and options, for messages. */
export function describeAddress({ hosts, database }: Address): string {
  const named = hosts.map(({ host, port }) => `${host.replaceAll('/', '%2F')}:${port}`);
  return `postgres://${named.join(',')}/${database}`;
}

function splitOnce(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new AddressFault('invalid percent-encoding');
  }
}

function hostOf(text: string): Host {
  const [, bracketed, plain = '', port] =
    /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = bracketed ?? decoded(plain);
  const number = port === undefined ? DEFAULT_PORT : Number(port);
  if (host === '' || number < 1 || number > 65_535) {
    throw new AddressFault(
      'a host is missing, or does not have the form host:port. A host may be the directory of a Unix ' +
        'socket: postgres://%2Fvar%2Frun%2Fpostgresql/collector',
    );
  }
  return { host, port: number };
}

function optionsOf(query: string): Map<string, string> {
  const options = new Map<string, string>();
  for (const pair of query.split('&').filter((each) => each !== '')) {
    const [name, value = ''] = splitOnce(pair, '=');
    if (!OPTIONS.includes(name)) {
      throw new AddressFault(`there is no option ${JSON.stringify(name)}; known are ${OPTIONS.join(', ')}`);
    }
    options.set(name, decoded(value));
  }
  return options;
}

/** Whether the host is the directory of a Unix socket. */
export function isSocket({ host }: Host): boolean {
  return host.startsWith('/');
}

/**
 * libpq's meaning of each mode, except that a session to another machine is encrypted and its server
 * verified.
 */
function sslOf(options: ReadonlyMap<string, string>, hosts: readonly Host[]): Address['ssl'] {
  const isLocal = hosts.every((host) => isSocket(host) || isLoopback(host.host));
  const mode = options.get('sslmode') ?? (isLocal ? 'prefer' : 'verify-full');
  if (!SSL_MODES.includes(mode)) throw new AddressFault(`sslmode must be one of ${SSL_MODES.join(', ')}`);
  const verified = () => [certified(options, mode === 'verify-full')];
  if (mode.startsWith('verify') || (mode === 'require' && options.has('sslrootcert'))) return verified();
  if (!isLocal)
    throw new AddressFault(
      mode === 'require'
        ? 'sslmode=require trusts any server; name its authority by sslrootcert, or use verify-full'
        : `sslmode=${mode}: patient data could cross the network unencrypted; use verify-full`,
    );
  const unverified = () => ({ ...certified(options, false)(), rejectUnauthorized: false });
  if (mode === 'require') return [unverified];
  return mode === 'disable' ? [false] : [false, unverified];
}

function certified(options: ReadonlyMap<string, string>, isNamed: boolean): () => ConnectionOptions {
  const file = (name: string) => {
    const named = options.get(name);
    if (named === undefined) return undefined;
    try {
      return readFileSync(named);
    } catch (error) {
      throw new AddressFault(`${name}: ${(error as Error).message}`);
    }
  };
  const read = () => {
    const [ca, cert, key] = [file('sslrootcert'), file('sslcert'), file('sslkey')];
    return {
      ...(ca && { ca }),
      ...(cert && { cert }),
      ...(key && { key }),
      ...(!isNamed && { checkServerIdentity: () => undefined }),
    };
  };
  read();
  return read;
}
