/** The options of the command, checked together. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { ConfigError } from '../../collector/src/config.js';
import { type GivenOptions, optionsFrom } from '../src/options.js';

const GIVEN = { dataDir: os.tmpdir(), stateDir: 's', host: '127.0.0.1', port: '8090', auth: 'local' };
let secret: string;
let roles: string;

beforeEach(() => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'viewer-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true }));
  [secret, roles] = [path.join(directory, 'secret'), path.join(directory, 'roles.json')];
  fs.writeFileSync(secret, ' of the client \n');
  fs.writeFileSync(roles, '{}');
});

/** The options with faults, in order. */
function faultsOf(given: Partial<GivenOptions>): string[] {
  try {
    optionsFrom({ ...GIVEN, ...given });
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults.map(({ source }) => source);
    throw error;
  }
}

test('[R-2046] a provider has its client and a secret from a file', () => {
  const oidc = {
    auth: 'oidc:https://login.example.org/a',
    clientId: 'viewer',
    clientSecret: `@${secret}`,
    roles,
  };
  const { auth, url } = optionsFrom({ ...GIVEN, ...oidc, url: 'https://viewer.example.org' });
  expect(auth).toMatchObject({
    kind: 'oidc',
    clientId: 'viewer',
    clientSecret: 'of the client',
    groupsClaim: 'groups',
  });
  expect(url?.href).toBe('https://viewer.example.org/');
  expect(faultsOf({ ...oidc, clientSecret: 'typed' })).toEqual(['--client-secret']);
  expect(faultsOf({ ...oidc, clientSecret: `@${roles}-not` })).toEqual(['--client-secret']);
  expect(faultsOf({ ...oidc, auth: 'oidc:http://login.example.org' })).toEqual(['--auth']);
  expect(faultsOf({ auth: 'oidc:', port: '65536', url: 'ftp://x' })).toEqual([
    ...['--port', '--auth', '--client-id', '--client-secret', '--url'],
  ]);
});

test('[R-2046] a proxy names persons from loopback, or with a certificate', () => {
  const url = 'https://viewer.example.org';
  const auth = 'proxy:X-Remote-User';
  const proxy = { auth, roles, url };
  expect(optionsFrom({ ...GIVEN, ...proxy }).auth).toEqual({
    ...{ kind: 'proxy', header: 'x-remote-user', groupsHeader: 'x-remote-groups' },
  });
  const tls = { tlsCert: 'c', tlsKey: 'k' };
  expect(faultsOf({ ...proxy, host: '0.0.0.0' })).toEqual(['--host', '--auth']);
  expect(faultsOf({ ...proxy, ...tls, host: '0.0.0.0' })).toEqual(['--auth']);
  expect(faultsOf({ ...proxy, ...tls, host: '0.0.0.0', clientCa: 'a' })).toEqual([]);
  expect(faultsOf({ auth, roles })).toEqual(['--url']);
  expect(faultsOf({ ...proxy, auth: 'proxy:X Remote' })).toEqual(['--auth']);
  expect(faultsOf({ auth, url })).toEqual(['--roles']);
});

test('[R-2046] the one-time link is for loopback alone', () => {
  expect(faultsOf({})).toEqual([]);
  expect(faultsOf({ host: '10.0.0.1', tlsCert: 'c', tlsKey: 'k' })).toEqual(['--auth']);
  expect(faultsOf({ tlsCert: 'c' })).toEqual(['--tls-cert']);
  expect(faultsOf({ clientCa: 'c' })).toEqual(['--client-ca']);
  expect(faultsOf({ kek: 'secret' })).toEqual(['--kek']);
  expect(faultsOf({ clientId: 'x', auth: 'lokal' })).toEqual(['--client-id', '--auth']);
  expect(faultsOf({ url: 'http://127.0.0.1:8090/path' })).toEqual(['--url']);
});

test('[R-2046] a mistyped data directory is a fault, and the viewer keeps its own files elsewhere', () => {
  const missing = path.join(os.tmpdir(), 'no-such-directory-of-a-collector');
  expect(faultsOf({ dataDir: missing })).toEqual(['--data-dir']);
  expect(faultsOf({ stateDir: `${os.tmpdir()}/` })).toEqual(['--state-dir']);
});
