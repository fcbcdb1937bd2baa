/**
 * What a configuration may say and had better not. Looks at the disk, and changes nothing there; what it cannot see is
 * no warning, because the start will tell.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { ConfigFault, Reading } from '../config.js';
import { isLoopback } from '../loopback.js';
import { parseSinks, SinkSpecInvalid, type SinkSpec } from '../transparency/sink.js';
import { exposureOf } from '../store/open.js';
import type { FoundProvisions } from './provisions.js';

/** So long before its end a certificate is worth a thought, in milliseconds. */
const CERTIFICATE_SOON_MS = 21 * 86_400_000;

/**
 * @param found what the options name, as far as it can be used.
 * @returns a line each, with who said it. Also for a configuration with faults, as far as it can be read.
 */
export function configWarnings({ settings, file }: Reading, found: FoundProvisions = {}): ConfigFault[] {
  const warnings: ConfigFault[] = [];
  const find = (name: string) => settings.find((setting) => setting.name === name);
  const textOf = (name: string) => String(find(name)?.value ?? '');
  const warn = (name: string, message: string | undefined) => {
    if (message !== undefined) warnings.push({ source: find(name)?.source ?? `--${name}`, message });
  };
  if (file !== undefined && modeOf(file) & 0o022) {
    warnings.push({
      source: file,
      message: 'other users may write it, and it can name a program to run: chmod go-w',
    });
  }
  const host = textOf('host');
  if (host !== '' && !isLoopback(host) && textOf('tls-cert') === '') {
    warn('host', `${host} is reached from other machines, and keys and events travel in the clear`);
  }
  const key = textOf('tls-key');
  const management = textOf('management-host');
  if (
    textOf('management') === 'on' &&
    management !== '' &&
    !isLoopback(management) &&
    textOf('tls-cert') === ''
  ) {
    warn(
      'management-host',
      `${management} is reached from other machines, and the operator token travels in the clear`,
    );
  }
  // A group may read: that is how Kubernetes mounts a secret.
  if (key !== '' && modeOf(key) & 0o007) warn('tls-key', `every user may read ${key}: chmod 600`);
  const until = found.tls?.credentials.certificate.validToDate;
  if (until !== undefined && until.getTime() < Date.now() + CERTIFICATE_SOON_MS) {
    warn('tls-cert', `the certificate ends on ${until.toISOString()}`);
  }
  warn('trusted-proxies', found.trustedProxies?.exposure);
  if (textOf('log-level') === 'silent') warn('log-level', 'nothing will be logged, whatever happens');

  const dataDir = textOf('data-dir');
  if (dataDir !== '') warn('data-dir', directoryTrouble(dataDir));
  const sinks = sinksOf(textOf('checkpoint-sink'));
  if (sinks.length === 0 && find('checkpoint-sink') !== undefined) {
    const keyToo =
      textOf('signing-command') === '' && isWithin(textOf('signing-keys'), dataDir)
        ? ', and the key that signs them lies beside the events'
        : '';
    warn(
      'checkpoint-sink',
      `no checkpoint leaves this host${keyToo}: who owns it could rewrite the log and nobody could tell`,
    );
  }
  for (const sink of sinks) {
    if (sink.kind !== 'witness') warn('checkpoint-sink', sinkTrouble(sink, dataDir));
  }
  return warnings;
}

function directoryTrouble(dataDir: string): string | undefined {
  const stat = statOf(dataDir);
  if (stat === undefined) {
    const above = nearestExisting(dataDir);
    return may(above, fs.constants.W_OK | fs.constants.X_OK)
      ? `${dataDir} is not there; a start would make it, and begin a new log`
      : `${dataDir} is not there, and this user may not make it: ${above} is not writable`;
  }
  if (!stat.isDirectory()) return undefined;
  if (!may(dataDir, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK)) {
    return `this user may not write in ${dataDir}`;
  }
  return exposureOf(dataDir);
}

/** A sink that shares the fate of the data is none. */
function sinkTrouble(sink: SinkSpec & { kind: 'directory' | 'file' }, dataDir: string): string | undefined {
  if (isWithin(sink.path, dataDir)) return `${sink.shown} is in the data directory, and is lost with it`;
  const device = statOf(nearestExisting(sink.path))?.dev;
  return device !== undefined && device === statOf(dataDir)?.dev
    ? `${sink.shown} is on the same file system as the data; let it be on another machine`
    : undefined;
}

/** None of an option that cannot be understood: that is a fault, and told as one. */
function sinksOf(text: string): readonly SinkSpec[] {
  try {
    return parseSinks(text);
  } catch (error) {
    if (error instanceof SinkSpecInvalid) return [];
    throw error;
  }
}

/** The rights on a file; none that can be seen where there are none, as on Windows. */
function modeOf(file: string): number {
  return process.platform === 'win32' ? 0 : (statOf(file)?.mode ?? 0);
}

function isWithin(inner: string, outer: string): boolean {
  const relative = path.relative(outer, inner);
  return !relative.startsWith('..') && !path.isAbsolute(relative);
}

function nearestExisting(place: string): string {
  let at = place;
  while (statOf(at) === undefined && path.dirname(at) !== at) at = path.dirname(at);
  return at;
}

function statOf(place: string): fs.Stats | undefined {
  try {
    return fs.statSync(place, { throwIfNoEntry: false });
  } catch {
    // In a directory that may not be entered.
    return undefined;
  }
}

function may(place: string, mode: number): boolean {
  try {
    fs.accessSync(place, mode);
    return true;
  } catch {
    return false;
  }
}
