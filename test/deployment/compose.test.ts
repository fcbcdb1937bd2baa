import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { isKekFile } from '../../packages/collector/src/privacy/key-encryption-key.js';
import { parseAddress } from '../../packages/postgres/src/address.js';
import { configFrom, CONTAINER_USER, LONGEST_STOP_S, ROOT, textOf, yamlOf } from './repository.js';

/** The parts of a service that these tests read. */
interface Service {
  readonly [name: string]: unknown;
  readonly user: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
  readonly stop_grace_period: string;
}
interface Compose<Name extends string> {
  readonly services: Readonly<Record<Name, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

const compose = yamlOf('deploy/compose.yaml') as Compose<'collector'>;
const { collector } = compose.services;

test('[R-1400] compose gives the container no more rights than it needs', () => {
  expect(collector.user).toBe(`${CONTAINER_USER}:${CONTAINER_USER}`);
  expect(collector['read_only']).toBe(true);
  expect(collector['cap_drop']).toEqual(['ALL']);
  expect(collector['security_opt']).toEqual(['no-new-privileges:true']);
  expect(collector['ulimits']).toMatchObject({ core: 0 });
});

test('[R-1400] compose sets valid variables, and publishes the ports on this host alone', () => {
  const { port, managementPort, managementTokenFile } = configFrom(collector.environment);
  expect(collector['ports']).toEqual([port, managementPort].map((each) => `127.0.0.1:${each}:${each}`));
  expect(collector.secrets.map((name) => `/run/secrets/${name}`)).toEqual([managementTokenFile]);
  expect(Object.keys(compose.secrets)).toEqual(collector.secrets);
  expect(collector['volumes']).toEqual(Object.keys(compose.volumes).map((name) => `${name}:/${name}`));
});

test('[R-1400] compose keeps the payload keys in a separate volume, whose directory the image has', () => {
  const { dataDir, encryption, encryptionKeys } = configFrom(collector.environment);
  expect(encryption).toBe('auto');
  expect(collector['volumes']).toContain(`keys:${encryptionKeys}`);
  expect(path.relative(encryptionKeys, dataDir)).toMatch(/^\.\./);
  expect(textOf('deploy/docker/Dockerfile')).toMatch(
    new RegExp(`install -d -o ${CONTAINER_USER} .* ${encryptionKeys}$`, 'm'),
  );
});

test('[R-1400] compose uses the image of this version, and waits longer than an orderly stop takes', () => {
  const { version } = JSON.parse(textOf('package.json')) as { version: string };
  expect(collector['image']).toBe(`collector:${version}`);
  expect(Number.parseInt(collector.stop_grace_period, 10)).toBeGreaterThan(LONGEST_STOP_S);
});

const PARTS = ['postgres', 'postgres-keys', 'migrate', 'roles', 'collector'] as const;
const withPostgres = yamlOf('deploy/compose.postgres.yaml') as Compose<(typeof PARTS)[number]>;
const parts = withPostgres.services;
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-compose-'));
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** As in the file, without the certificate, which does not exist here. */
function addressOf({ environment }: Service): ReturnType<typeof parseAddress> {
  const [, certificate] = /&sslrootcert=(\S+)$/.exec(environment['COLLECTOR_STORE'] ?? '') ?? [];
  expect(certificate).toBe('/run/secrets/server.crt');
  return parseAddress((environment['COLLECTOR_STORE'] ?? '').replace(/&sslrootcert=.*/, ''));
}

test('[R-1400] compose with PostgreSQL gives each container no more rights than it needs', () => {
  for (const name of PARTS) {
    expect(parts[name]['cap_drop'], name).toEqual(['ALL']);
    expect(parts[name]['security_opt'], name).toEqual(['no-new-privileges:true']);
    expect(parts[name]['ports'] === undefined, name).toBe(name !== 'collector');
    for (const secret of parts[name].secrets) expect(withPostgres.secrets).toHaveProperty([secret]);
  }
  for (const name of ['migrate', 'roles', 'collector'] as const) {
    expect(parts[name].user).toBe(`${CONTAINER_USER}:${CONTAINER_USER}`);
    expect(parts[name]['read_only']).toBe(true);
  }
  expect(parts.collector['ulimits']).toMatchObject({ core: 0 });
  expect(parts.collector['image']).toBe(collector['image']);
  expect(parts.migrate['image']).toEqual(collector['image']);
  // Who has the owner's password can change events.
  expect(parts.collector.secrets.filter((name) => name.startsWith('owner'))).toEqual([]);
});

test('[R-1400] compose with PostgreSQL makes the tables, then the roles, then starts the collector', () => {
  expect(parts.migrate['depends_on']).toEqual({ postgres: { condition: 'service_healthy' } });
  expect(parts.roles['depends_on']).toEqual({ migrate: { condition: 'service_completed_successfully' } });
  expect(parts.collector['depends_on']).toEqual({
    ...{ roles: { condition: 'service_completed_successfully' } },
    'postgres-keys': { condition: 'service_healthy' },
  });
  const [script = ''] = parts.migrate['command'] as string[];
  const main = /ENTRYPOINT \["node", .*"([^"]+)"\]/.exec(textOf('deploy/docker/Dockerfile'))?.[1];
  expect(script).toContain(`main=${main}\n`);
  const written = /store roles > (\S+)/.exec(script)?.[1] ?? '';
  expect(parts.roles['entrypoint']).toContain(`--file=${written}`);
  expect(parts.migrate['volumes']).toEqual(['roles:/data']);
  expect(parts.roles['volumes']).toEqual(['roles:/data:ro', './docker/postgres-roles.sql:/roles.sql:ro']);
  expect(textOf('deploy/docker/postgres-roles.sql')).toContain('log_parameter_max_length = 0');
});

test('[R-1400] compose with PostgreSQL sets valid variables of the collector', () => {
  const { port, managementPort, managementTokenFile } = configFrom(parts.collector.environment);
  expect(parts.collector['ports']).toEqual([port, managementPort].map((each) => `127.0.0.1:${each}:${each}`));
  expect(managementTokenFile).toBe('/run/secrets/operator-token');
  const { POSTGRES_DB: database, POSTGRES_USER: owner } = parts.postgres.environment;
  const hosts = [{ host: 'postgres', port: 5432 }];
  expect(addressOf(parts.migrate)).toMatchObject({ hosts, database, user: owner });
  expect(addressOf(parts.collector)).toMatchObject({ hosts, database, user: 'collector', ssl: {} });
  expect(Number.parseInt(parts.collector.stop_grace_period, 10)).toBeGreaterThan(LONGEST_STOP_S);
});

test('[R-1400] compose with PostgreSQL keeps payload keys on another server, and the KEK on neither', () => {
  const { encryption, encryptionKeys, kek } = configFrom(parts.collector.environment);
  const keys = parseAddress(encryptionKeys.replace(/&sslrootcert=.*/, ''));
  const { POSTGRES_DB: database, POSTGRES_USER: user } = parts['postgres-keys'].environment;
  expect(keys).toMatchObject({ hosts: [{ host: 'postgres-keys', port: 5432 }], database, user, ssl: {} });
  expect(encryptionKeys).toMatch(/&sslrootcert=\/run\/secrets\/keys-server\.crt$/);
  expect([encryption, kek]).toEqual(['on', 'file:/run/secrets/kek']);
  const holders = PARTS.filter((part) => parts[part].secrets.includes('kek'));
  expect(holders).toEqual(['collector']);
  expect(parts['postgres-keys']['volumes']).not.toEqual(parts.postgres['volumes']);
  expect(parts['postgres-keys']['command']).toContain('-clog_parameter_max_length=0');
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

test.skipIf(!hasOpenssl)(
  '[R-1400] the script makes the secrets that compose with PostgreSQL names, once',
  () => {
    const directory = path.join(scratch, 'secrets');
    const make = () => {
      const { status, stderr } = spawnSync('sh', [
        ...[path.join(ROOT, 'deploy/docker/postgres-secrets.sh'), directory],
      ]);
      expect([status, String(stderr)]).toEqual([0, '']);
      return fs.readdirSync(directory).map((name) => fs.readFileSync(path.join(directory, name), 'utf8'));
    };
    const made = make();
    expect(fs.readdirSync(directory).sort()).toEqual(Object.keys(withPostgres.secrets).sort());
    expect(Object.values(withPostgres.secrets).map(({ file }) => path.dirname(file))).toEqual(
      made.map(() => 'secrets'),
    );
    for (const name of fs.readdirSync(directory)) {
      const { mode, uid } = fs.statSync(path.join(directory, name));
      expect(mode & 0o777, name).toBe(name.endsWith('.crt') ? 0o644 : 0o600);
      if (process.getuid?.() !== 0 || name.endsWith('.crt')) continue;
      const readers = PARTS.filter((part) => parts[part].secrets.includes(name)).map(
        (part) => parts[part].user,
      );
      expect([...new Set(readers)], name).toEqual([`${uid}:${uid}`]);
    }
    expect(make()).toEqual(made);
    expect(isKekFile(fs.readFileSync(path.join(directory, 'kek')))).toBe(true);
    // Secrets from before payload keys existed: the missing line is added.
    fs.writeFileSync(path.join(directory, 'collector.pgpass'), '*:*:*:collector:x\n');
    make();
    expect(fs.readFileSync(path.join(directory, 'collector.pgpass'), 'utf8')).toMatch(
      /^\*:\*:\*:collector:x\n\*:\*:\*:collector_keys:[0-9a-f]{48}\n$/,
    );
  },
);
