/**
 * `collector keys`: creates, lists, rotates and revokes API keys, also while a collector runs on the
 * directory.
 */
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import { PROFILES } from '@clinical-events/protocol';
import { DEFAULT_ORGANISATION, type IssuedKey, createKey, keyState, rotateKey } from '../access/issuing.js';
import { isKeyId, keyIdOf } from '../access/key-ring.js';
import { certificateName, formatRateLimit, parseRateLimit } from '../access/principal.js';
import type { Config } from '../config.js';
import { exists } from '../files.js';
import {
  type ApiKey,
  type KeyStore,
  PERMISSIONS,
  type Permissions,
  type RateLimit,
  type RotationRefusal,
} from '../store/contract/keys.js';
import { describeStore, isShared } from '../store/open.js';
import { KeyDatabase, keyDatabasePath, openKeys } from '../store/open-keys.js';
import { type Access, logAct } from './access-log.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { newKeyNotice, portOfHolder, requiresCertificate } from './listening.js';
import { assertOwn } from './regular-files.js';
import { alignedTable, jsonText } from './terminal.js';
import { expiryFrom, overlapFrom, wordsFrom } from './arguments.js';
import { defineCommand } from './define.js';
import { instant } from '../quantity.js';

/* Strict parsers of single arguments. Each throws a usage failure with a hint. */

/** `all`, or a comma-separated list of kinds and `otlp`. */
export function permissionsFrom(text: string): Permissions {
  const names = wordsFrom('--permissions', text, ['all', ...PERMISSIONS]);
  return names.has('all') ? 'all' : PERMISSIONS.filter((each) => names.has(each));
}

/** `100/s` or `100/s:500`. */
export function rateLimitFrom(text: string | undefined): RateLimit | undefined {
  if (text === undefined) return undefined;
  const limit = parseRateLimit(text);
  if (limit === undefined) {
    throw usage(
      `--rate-limit: ${JSON.stringify(text)} is not of the form 100/s or 100/s:500 (events per second, ` +
        'burst)',
    );
  }
  return limit;
}

/** `dns:` or `uri:` and a name of that type in the certificate. */
export function clientCertificateFrom(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const name = certificateName(text);
  if (name === undefined) {
    throw usage(
      `--client-certificate: ${JSON.stringify(text)} is neither like dns:app.example.org nor like ` +
        'uri:spiffe://example.org/app',
    );
  }
  return name;
}

/** A key id. The message never repeats the text: people paste whole keys where the id is expected. */
export function keyIdFrom(text: string): string {
  if (isKeyId(text)) return text;
  const keyId = keyIdOf(text);
  if (keyId === undefined) {
    throw usage('that is not a key id: 12 characters of a-z 2-7, as "collector keys list" shows');
  }
  throw usage(
    `give the key id, ${keyId}, not the key: other users of this host can read it in the process list`,
  );
}

interface CreateOptions {
  readonly organisation: string;
  readonly permissions: string;
  readonly expires?: string;
  readonly rateLimit?: string;
  readonly profile?: (typeof PROFILES)[number];
  readonly clientCertificate?: string;
  readonly note?: string;
  readonly json?: true;
}
interface ListOptions {
  readonly organisation?: string;
  readonly json?: true;
}
interface RotateOptions {
  readonly overlap: string;
  readonly expires?: string;
  readonly json?: true;
}

/** A key for programs, which rely on the names. It has neither the secret nor its hash. */
function keyJson(key: ApiKey, nowMs: number): object {
  return {
    key_id: key.keyId,
    organisation: key.organisation,
    permissions: key.permissions === 'all' ? ['all'] : key.permissions,
    profile: key.profile ?? null,
    rate_limit: key.rateLimit
      ? { events_per_second: key.rateLimit.perSecond, burst: key.rateLimit.burst }
      : null,
    client_certificate: key.clientCertificate ?? null,
    note: key.note,
    state: keyState(key, nowMs),
    created_at: instant(key.createdAt),
    expires_at: instant(key.expiresAt),
    revoked_at: instant(key.revokedAt),
    rotated_from: key.rotatedFrom ?? null,
    replaced_by: key.replacedBy ?? null,
  };
}

/** An instant for people, truncated to the second. */
function shortInstant(ms: number | undefined): string {
  return instant(ms)?.replace(/\.\d+Z$/, 'Z') ?? '-';
}

function day(ms: number | undefined): string | undefined {
  return instant(ms)?.slice(0, 10);
}

/** Columns without a value are left out; --json has everything, with instants instead of days. */
function keyTable(keys: readonly ApiKey[], nowMs: number): string {
  const columns: [string, (key: ApiKey) => string | undefined][] = [
    ['KEY ID', ({ keyId }) => keyId],
    ['ORGANISATION', ({ organisation }) => organisation],
    ['PERMISSIONS', ({ permissions }) => (permissions === 'all' ? 'all' : permissions.join(','))],
    ['PROFILE', ({ profile }) => profile],
    ['RATE LIMIT', ({ rateLimit }) => rateLimit && formatRateLimit(rateLimit)],
    ['CERTIFICATE', ({ clientCertificate }) => clientCertificate],
    ['STATE', (key) => keyState(key, nowMs)],
    ['CREATED', ({ createdAt }) => day(createdAt)],
    ['EXPIRES', ({ expiresAt }) => day(expiresAt)],
    ['NOTE', ({ note }) => note],
  ];
  const shown = columns.filter(([, valueOf]) => keys.length === 0 || keys.some((key) => valueOf(key)));
  return alignedTable(
    [
      shown.map(([name]) => name),
      ...keys.map((key) =>
        shown.map(([name, valueOf]) => valueOf(key) ?? (name === 'EXPIRES' ? 'never' : '-')),
      ),
    ],
    process.stdout,
  );
}

/** Undefined if it cannot be read; keys can be created without it. */
function certificateOf(file: string): X509Certificate | undefined {
  try {
    return new X509Certificate(fs.readFileSync(file));
  } catch {
    return undefined;
  }
}

const DEFAULT_PORT = 8080;

function printIssued(issued: IssuedKey, config: Config, introduction: string): void {
  const { text, key } = issued;
  const kind = (key.permissions === 'all' ? undefined : key.permissions[0]) ?? 'inference-start';
  // Without an explicit port, the text has the port of the collector that runs on the directory.
  const said = config.port !== 0 && config.port !== DEFAULT_PORT;
  const port = said ? config.port : (portOfHolder(config.dataDir) ?? DEFAULT_PORT);
  const listening = {
    host: config.host,
    port,
    otlpPort: config.otlpPort || undefined,
    tls:
      config.tlsCert === ''
        ? undefined
        : {
            file: config.tlsCert,
            certificate: certificateOf(config.tlsCert),
            clientShowsOne: key.clientCertificate !== undefined || requiresCertificate(config),
          },
  };
  process.stdout.write(introduction + newKeyNotice(listening, text, kind));
}

type Keys = Pick<KeyStore, 'list' | 'insert' | 'rotate' | 'revoke' | 'close'>;

/**
 * Opens the keys so that their changes are logged in the access log. Creates the data directory, so that this
 * also works before the first start.
 */
async function openLogged(config: Config): Promise<Keys> {
  const keys = await openKeys(config);
  const place = 'accessLog' in keys ? keys.accessLog : config.dataDir;
  const logged = <Result>(what: string, filter: Access['filter'], change: () => Promise<Result>) =>
    logAct(place, { command: `keys ${what}`, filter }, async (access) => {
      const result = await change();
      access.complete = result === undefined || result === true;
      return result;
    });
  return {
    list: () => keys.list(),
    close: () => keys.close(),
    insert(key) {
      const { keyId, organisation, permissions, expiresAt } = key;
      const filter = { key_id: keyId, organisation, permissions, expires_at: instant(expiresAt) };
      return logged('create', filter, () => keys.insert(key));
    },
    rotate(successor, oldEnds, now) {
      const { rotatedFrom, keyId, expiresAt } = successor;
      const filter = {
        ...{ key_id: rotatedFrom, accepted_until: instant(oldEnds) },
        ...{ replaced_by: keyId, expires_at: instant(expiresAt) },
      };
      return logged('rotate', filter, () => keys.rotate(successor, oldEnds, now));
    },
    revoke: (keyId, now) => logged('revoke', { key_id: keyId }, () => keys.revoke(keyId, now)),
  };
}

async function withKeys<Result>(
  config: Config,
  work: (keys: Keys) => Promise<Result>,
  open: (config: Config) => Keys | Promise<Keys> = openLogged,
): Promise<Result> {
  const keys = await open(config);
  try {
    return await work(keys);
  } finally {
    await keys.close();
  }
}

async function create(options: CreateOptions, config: Config): Promise<void> {
  const now = Date.now();
  const grants = {
    organisation: options.organisation,
    permissions: permissionsFrom(options.permissions),
    profile: options.profile,
    rateLimit: rateLimitFrom(options.rateLimit),
    clientCertificate: clientCertificateFrom(options.clientCertificate),
    expiresAt: expiryFrom(options.expires, now),
    note: options.note,
  };
  assertOwn(config);
  const absent = !isShared(config) && !exists(config.dataDir);
  const issued = await withKeys(config, (keys) => createKey(keys, grants, now));
  // A typo in --data-dir would otherwise show only when the collector refuses the key.
  if (absent) process.stderr.write(`collector: created the data directory ${config.dataDir}\n`);
  if (options.json) process.stdout.write(jsonText({ key: issued.text, ...keyJson(issued.key, now) }));
  else {
    const until = issued.key.expiresAt === undefined ? '' : ` until ${shortInstant(issued.key.expiresAt)}`;
    printIssued(
      issued,
      config,
      `Key ${issued.key.keyId} for organisation "${issued.key.organisation}"${until}:\n`,
    );
  }
}

async function list(options: ListOptions, config: Config): Promise<void> {
  if (!isShared(config) && !exists(config.dataDir)) {
    throw new CommandFailure(`there is no data directory at ${config.dataDir}`, EXIT.notFound);
  }
  const now = Date.now();
  // Opened read-only, so that a snapshot can be listed.
  const all = isShared(config)
    ? await withKeys(config, (keys) => keys.list())
    : exists(keyDatabasePath(config.dataDir))
      ? await withKeys(
          config,
          (keys) => keys.list(),
          ({ dataDir }) => KeyDatabase.openReadOnly(dataDir),
        )
      : [];
  const keys = all.filter(({ organisation }) => (options.organisation ?? organisation) === organisation);
  if (options.json) process.stdout.write(jsonText(keys.map((key) => keyJson(key, now))));
  else if (keys.length > 0) process.stdout.write(keyTable(keys, now));
  else {
    const whose = options.organisation === undefined ? '' : ` of organisation "${options.organisation}"`;
    process.stderr.write(`collector: there are no keys${whose} in ${describeStore(config)}\n`);
  }
}

/** Whether there may be keys; a database is not queried. */
function hasKeys(config: Config): boolean {
  return isShared(config) || exists(keyDatabasePath(config.dataDir));
}

function unknownKey(keyId: string, config: Config): CommandFailure {
  return new CommandFailure(`there is no key ${keyId} in ${describeStore(config)}`, EXIT.notFound);
}

function notRotated(keyId: string, refusal: RotationRefusal, config: Config): CommandFailure {
  switch (refusal) {
    case 'unknown':
      return unknownKey(keyId, config);
    case 'replaced':
      return usage(`key ${keyId} has already been rotated: rotate its successor`);
    case 'expired':
    case 'revoked':
      return usage(`key ${keyId} is ${refusal}: create a new key instead`);
  }
}

async function rotate(text: string, options: RotateOptions, config: Config): Promise<void> {
  const now = Date.now();
  const keyId = keyIdFrom(text);
  const overlap = overlapFrom(options.overlap, now);
  const expiresAt = expiryFrom(options.expires, now);
  if (!hasKeys(config)) throw unknownKey(keyId, config);
  const { result, old } = await withKeys(config, async (keys) => ({
    result: await rotateKey(keys, keyId, overlap, now, expiresAt),
    old: (await keys.list()).find((key) => key.keyId === keyId),
  }));
  if (typeof result === 'string') throw notRotated(keyId, result, config);
  if (options.json) {
    process.stdout.write(
      jsonText({
        key: result.text,
        ...keyJson(result.key, now),
        old_key_expires_at: instant(old?.expiresAt),
      }),
    );
    return;
  }
  const oldEnds =
    overlap === 0 ? 'is no longer accepted' : `is accepted until ${shortInstant(old?.expiresAt)}`;
  printIssued(result, config, `Key ${keyId} ${oldEnds}. Its successor is ${result.key.keyId}:\n`);
}

async function revoke(text: string, options: { readonly json?: true }, config: Config): Promise<void> {
  const keyId = keyIdFrom(text);
  const now = Date.now();
  if (!hasKeys(config)) throw unknownKey(keyId, config);
  const revoked = await withKeys(config, async (keys) =>
    (await keys.revoke(keyId, now)) ? (await keys.list()).find((key) => key.keyId === keyId) : undefined,
  );
  if (revoked === undefined) throw unknownKey(keyId, config);
  if (options.json) process.stdout.write(jsonText(keyJson(revoked, now)));
  else {
    const when = shortInstant(revoked.revokedAt);
    process.stdout.write(
      `Key ${keyId} has been revoked since ${when}. A running collector refuses it within a second.\n`,
    );
  }
}

const CREATE_EXAMPLES = `  $ collector keys create --permissions all
  $ collector keys create --organisation ward-7 --permissions inference-start,human-output \\
      --expires 90d --rate-limit 100/s:500 --note "summariser, test system"
  $ collector keys create --permissions outcome --json | jq -r .key > outcome.key
  $ collector keys create --permissions all --client-certificate uri:spiffe://example.org/triage

The output includes a curl command that sends a first event; --host and --port are its address.`;

const creating = defineCommand<CreateOptions>({
  name: 'create',
  description: 'Create an API key and print it once.',
  options: {
    '--organisation <name>': { help: 'organisation of the key', default: DEFAULT_ORGANISATION },
    '--permissions <kinds>': {
      help: `(required) all, or a comma-separated list of ${PERMISSIONS.join(', ')}`,
      isRequired: true,
    },
    '--expires <when>': 'expiry: an instant (2027-01-01T00:00:00Z) or a time from now (90d) (default: never)',
    '--rate-limit <rate>': 'events per second and burst, such as 100/s or 100/s:500 (default: none)',
    '--profile <name>': { help: "profile of its events (default: the collector's)", choices: PROFILES },
    '--client-certificate <name>':
      'name that the client certificate must have: dns:NAME or uri:URI (default: none)',
    '--note <text>': 'purpose of the key',
    '--json': 'print the key and its properties as JSON',
  },
  configuration: 'issuing',
  examples: CREATE_EXAMPLES,
  run: ({ options, config }) => create(options, config()),
});

const listing = defineCommand<ListOptions>({
  name: 'list',
  description: 'List the keys, without secrets and hashes.',
  options: {
    '--organisation <name>': 'only the keys of this organisation',
    '--json': 'print a JSON array',
  },
  configuration: 'keys',
  examples: `  $ collector keys list
  $ collector keys list --organisation ward-7 --json | jq -r '.[] | select(.state == "active").key_id'`,
  run: ({ options, config }) => list(options, config()),
});

const ROTATE_EXAMPLES = `  $ collector keys rotate k3v7q2mzt5ab
  $ collector keys rotate k3v7q2mzt5ab --overlap 0          # the old key is refused immediately
  $ collector keys rotate k3v7q2mzt5ab --overlap 7d --expires 90d

The output includes a curl command that sends a first event; --host and --port are its address.`;

const rotating = defineCommand<RotateOptions>({
  name: 'rotate',
  description: 'Replace a key with a new one that has the same grants; the old one stays valid for a while.',
  arguments: { '<key-id>': 'the id of the key to replace, as "collector keys list" shows it' },
  options: {
    '--overlap <time>': { help: 'how long the old key stays valid', default: '24h' },
    '--expires <when>': "expiry of the new key, as for create (default: the old key's)",
    '--json': 'print the new key and its properties as JSON',
  },
  configuration: 'issuing',
  examples: ROTATE_EXAMPLES,
  run: ({ options, config }, id) => rotate(id, options, config()),
});

const revoking = defineCommand<{ readonly json?: true }>({
  name: 'revoke',
  description: 'Revoke a key permanently.',
  arguments: { '<key-id>': 'the id of the key, as "collector keys list" shows it' },
  options: { '--json': 'print its properties as JSON' },
  configuration: 'keys',
  examples: `  $ collector keys revoke k3v7q2mzt5ab`,
  run: ({ options, config }, id) => revoke(id, options, config()),
});

export const command = defineCommand({
  name: 'keys',
  description: 'Create, list, rotate and revoke API keys. A running collector follows within a second.',
  commands: [creating, listing, rotating, revoking],
});
