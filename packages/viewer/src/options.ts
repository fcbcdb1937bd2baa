/** The options of `collector-viewer`, checked together: all faults are reported together. */
import fs from 'node:fs';
import path from 'node:path';
import { ConfigError, type ConfigFault } from '@clinical-events/collector/config';
import { isLoopback } from '@clinical-events/collector/loopback';
import type { PeopleAuth } from './people/register.js';

export interface ViewerOptions {
  readonly dataDir: string;
  readonly stateDir: string;
  readonly host: string;
  readonly port: number;
  readonly auth: PeopleAuth;
  /** Undefined for `--auth local` without a file. */
  readonly rolesFile: string | undefined;
  /** The address in a browser; undefined until the port is known, for a free port without --url. */
  readonly url: URL | undefined;
  readonly kek: string | undefined;
  readonly tls: TlsFiles | undefined;
}

interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

/** The options as given on the command line. */
export interface GivenOptions {
  readonly dataDir: string;
  readonly stateDir: string;
  readonly host: string;
  readonly port: string;
  readonly auth: string;
  readonly roles?: string;
  readonly url?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly groups?: string;
  readonly kek?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly clientCa?: string;
}

const HEADER = /^[A-Za-z][A-Za-z0-9-]{0,63}$/;
const GROUPS_CLAIM = 'groups';
const GROUPS_HEADER = 'X-Remote-Groups';
const KEK = /^(file|command):./;

/** @throws ConfigError with every fault, without a secret. */
export function optionsFrom(given: GivenOptions): ViewerOptions {
  const faults: ConfigFault[] = [];
  const fault: Fault = (option, message) => {
    faults.push({ source: `--${option}`, message });
  };
  const port = /^\d{1,5}$/.test(given.port) && Number(given.port) < 65_536 ? Number(given.port) : undefined;
  if (port === undefined) fault('port', 'give a number from 0 to 65535');
  const auth = authFrom(given, fault);
  const tls = tlsFrom(given, fault);
  const url = urlFrom(given, { port, isTls: tls !== undefined }, fault);
  if (!isLoopback(given.host) && tls === undefined)
    fault('host', `${given.host} can be reached from other hosts: give --tls-cert and --tls-key`);
  if (auth !== undefined) checkWhere(auth, given, { url, tls }, fault);
  if (given.kek !== undefined && !KEK.test(given.kek)) fault('kek', 'give file:PATH or command:PROGRAM');
  if (given.roles !== undefined && !fs.existsSync(given.roles)) fault('roles', 'there is no such file');
  checkDirectories(given, fault);
  if (faults.length > 0 || port === undefined || auth === undefined) throw new ConfigError(faults);
  return {
    ...{ dataDir: path.resolve(given.dataDir), stateDir: path.resolve(given.stateDir) },
    ...{ host: given.host, port, auth, url, tls, kek: given.kek },
    rolesFile: given.roles === undefined ? undefined : path.resolve(given.roles),
  };
}

/** A mistyped directory would otherwise look like a log that has no event yet. */
function checkDirectories({ dataDir, stateDir }: GivenOptions, fault: Fault): void {
  if (!fs.existsSync(dataDir)) fault('data-dir', `there is no directory ${dataDir}`);
  if (path.resolve(dataDir) === path.resolve(stateDir))
    fault('state-dir', 'give another directory than that of the data');
}

/** Adds a fault. */
type Fault = (option: string, message: string) => void;

function authFrom(given: GivenOptions, fault: Fault): PeopleAuth | undefined {
  const [, kind = '', value = ''] = /^([a-z]+)(?::(.*))?$/s.exec(given.auth) ?? [];
  for (const name of ['clientId', 'clientSecret'] as const)
    if (given[name] !== undefined && kind !== 'oidc') fault(dashed(name), 'is for --auth oidc:ISSUER alone');
  if (kind === 'local' && value === '') return { kind };
  if (kind === 'proxy') return proxyFrom(value, given.groups ?? GROUPS_HEADER, fault);
  if (kind === 'oidc') return providerFrom(value, given, fault);
  fault('auth', 'give local, proxy:HEADER or oidc:ISSUER');
  return undefined;
}

function proxyFrom(header: string, groupsHeader: string, fault: Fault): PeopleAuth {
  if (!HEADER.test(header)) fault('auth', 'after proxy: give the name of a header');
  if (!HEADER.test(groupsHeader)) fault('groups', 'give the name of a header');
  return { kind: 'proxy', header: header.toLowerCase(), groupsHeader: groupsHeader.toLowerCase() };
}

function providerFrom(address: string, given: GivenOptions, fault: Fault): PeopleAuth | undefined {
  const issuer = URL.canParse(address) ? new URL(address) : undefined;
  const isFit = issuer?.protocol === 'https:' || (issuer !== undefined && isLocal(issuer));
  if (!isFit) fault('auth', 'after oidc: give the https address of the provider');
  const { clientId = '', groups: groupsClaim = GROUPS_CLAIM } = given;
  if (clientId === '') fault('client-id', 'is needed for oidc');
  const clientSecret = secretFrom(given.clientSecret, fault);
  return issuer && clientSecret !== undefined
    ? { kind: 'oidc', issuer, clientId, clientSecret, groupsClaim }
    : undefined;
}

/** A secret as an argument could be read by every user of the host. */
function secretFrom(text: string | undefined, fault: Fault): string | undefined {
  if (!text?.startsWith('@')) fault('client-secret', 'give @FILE, a file with the secret');
  else
    try {
      const secret = fs.readFileSync(text.slice(1), 'utf8').trim();
      if (secret !== '') return secret;
      fault('client-secret', 'the file is empty');
    } catch (error) {
      fault('client-secret', `the file cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
  return undefined;
}

function tlsFrom({ tlsCert: cert, tlsKey: key, clientCa }: GivenOptions, fault: Fault): TlsFiles | undefined {
  if (cert !== undefined && key !== undefined) return { cert, key, clientCa };
  if ((cert ?? key) !== undefined) fault('tls-cert', 'needs --tls-key, and it needs this');
  else if (clientCa !== undefined) fault('client-ca', 'needs --tls-cert and --tls-key');
  return undefined;
}

function urlFrom(
  { url: text, host }: GivenOptions,
  { port, isTls }: { readonly port: number | undefined; readonly isTls: boolean },
  fault: Fault,
): URL | undefined {
  if (text === undefined) return port === undefined || port === 0 ? undefined : ownUrl(host, port, isTls);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !(url.protocol === 'https:' || isLocal(url)))
    fault('url', 'give the https address by which a browser reaches the viewer');
  else if (url.pathname !== '/' || url.search !== '' || url.hash !== '' || url.username !== '')
    fault('url', 'give scheme, host and port alone');
  return url;
}

/** The address of a viewer without a proxy. */
export function ownUrl(host: string, port: number, isTls: boolean): URL {
  return new URL(`${isTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}/`);
}

function isLocal(url: URL): boolean {
  return url.protocol === 'http:' && isLoopback(url.hostname.replace(/^\[|\]$/g, ''));
}

function checkWhere(
  auth: PeopleAuth,
  { host, roles, url: givenUrl }: GivenOptions,
  { url, tls }: { readonly url: URL | undefined; readonly tls: TlsFiles | undefined },
  fault: Fault,
): void {
  if (auth.kind !== 'local' && roles === undefined) fault('roles', 'name the file with the roles of groups');
  if (
    auth.kind === 'local' &&
    !(isLoopback(host) && (url === undefined || isLocal(url) || tls !== undefined))
  )
    fault('auth', 'local works on a loopback address alone');
  if (auth.kind === 'proxy' && !isLoopback(host) && tls?.clientCa === undefined)
    fault(
      'auth',
      'beyond loopback, proxy needs --client-ca: only a proxy with a certificate may name a person',
    );
  if (auth.kind === 'proxy' && givenUrl === undefined)
    fault('url', 'name the address of the proxy in a browser');
}

function dashed(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
