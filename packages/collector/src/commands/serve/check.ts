/**
 * `collector serve --check`: what a start would make of its options, the environment and the file. Reads, and tries
 * addresses for an instant; starts nothing and changes nothing. What is stored is for `collector doctor`.
 */
import fs from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { type Config, ConfigError, type ConfigFault, type ConfigReading } from '../../config.js';
import { isLoopback } from '../../loopback.js';
import { exposureOf } from '../../store/directory-lock.js';
import { notesKeys, readKeyPlaces } from '../../store/key-places.js';
import { isShared } from '../../store/open.js';
import { messageOf, systemCode } from '../../system-code.js';
import { programFault } from '../../tree/program.js';
import { checkOrigin, hasHistory, readHistory, PrivateKeys, signingProgram } from '../../tree/key-files.js';
import type { ProgramSinkSpec } from '../../tree/sink.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { alignedTable, legible, printableJson } from '../terminal.js';
import { type FoundSettings, findSettings } from './resolved-config.js';

/** Below this a port is for root, or for whom the system says. */
const PRIVILEGED_BELOW = 1024;

/** A certificate that ends sooner is warned of, in milliseconds. */
const CERTIFICATE_SOON_MS = 21 * 86_400_000;

/**
 * @param listen whether the start is to take events.
 * @returns the exit code.
 * @throws ConfigError with every fault, unless they are printed as JSON.
 */
export async function checkConfig(
  reading: ConfigReading,
  { json, listen }: { readonly json: boolean; readonly listen: boolean },
): Promise<ExitCode> {
  const { settings } = reading;
  const { found, faults: foundFaults } = await findSettings(reading);
  const faults = [...foundFaults, ...(await startFaults(reading, listen))];
  const warnings = configWarnings(reading, found, listen);
  if (json) {
    const sound = settings
      // A faulty list of sinks may hold a password.
      .filter(({ source }) => !faults.some((fault) => fault.source === source))
      .map(({ name, value, from, source, reloadable }) => ({ name, value, from, source, reloadable }));
    const answer = { usable: faults.length === 0, faults, warnings, settings: sound };
    process.stdout.write(`${printableJson(JSON.stringify(answer, undefined, 2))}\n`);
    return faults.length === 0 ? EXIT.ok : EXIT.usage;
  }
  if (faults.length > 0) throw new ConfigError(faults);
  const rows = settings.map(({ name, shown, from, source, reloadable }) => [
    name,
    legible(shown),
    from === 'environment' || from === 'file' ? legible(source) : from,
    reloadable ? 'yes' : '',
  ]);
  process.stdout.write(alignedTable([['OPTION', 'VALUE', 'FROM', 'RELOAD'], ...rows]));
  for (const { source, message } of warnings) {
    process.stdout.write(`warning: ${legible(source)}: ${legible(message)}\n`);
  }
  return EXIT.ok;
}

/**
 * What a start would refuse although every option is sound: the log's name and keys, the program that signs, addresses.
 * A check that needs an option with a fault of its own is left out.
 */
async function startFaults({ sound, sourceOf }: ConfigReading, listen: boolean): Promise<ConfigFault[]> {
  const faults: ConfigFault[] = [];
  const add = (option: string, message: string | undefined) => {
    if (message !== undefined) faults.push({ source: sourceOf(option), message });
  };
  const { dataDir, signingKeys, logOrigin } = sound;
  const program = signingProgram(signingKeys ?? '');
  if (program !== undefined) add('signing-keys', programFault(program));
  if (logOrigin)
    add(
      'log-origin',
      reasonUnless(() => checkOrigin(logOrigin)),
    );
  if (dataDir !== undefined && signingKeys !== undefined) {
    add(
      program === undefined ? 'signing-keys' : 'data-dir',
      reasonUnless(() => {
        if (statOf(dataDir)?.isDirectory() !== true || !hasHistory(dataDir)) return;
        const { current } = readHistory(dataDir);
        if (logOrigin && current.name !== logOrigin)
          add('log-origin', `this log began as ${current.name}, and its name stays`);
        if (program === undefined) new PrivateKeys(signingKeys).read(current);
      }),
    );
  }
  add('encryption-keys', keysFault(sound));
  const { host, port, otlpPort, management, managementHost, managementPort } = sound;
  if (listen && host !== undefined && port !== undefined) add('host', await addressFault(host, port));
  if (listen && host !== undefined && typeof otlpPort === 'number')
    add('otlp-port', await addressFault(host, otlpPort));
  if (management === 'on' && managementHost !== undefined && managementPort !== undefined)
    add('management-host', await addressFault(managementHost, managementPort));
  return faults;
}

/** Why this user could not store a payload key: neither the first directory nor one of its mirrors is writable. */
function keysFault({ dataDir, store, encryption, encryptionKeys = '' }: Partial<Config>): string | undefined {
  if (dataDir === undefined || store === undefined || isShared({ store }) || encryption === 'off')
    return undefined;
  const given = encryptionKeys.split(',').filter((each) => each !== '');
  if (given.length === 0 && !notesKeys(dataDir)) return undefined;
  let first: string | undefined;
  let mirrors: readonly (string | undefined)[] = [];
  const unfit = reasonUnless(() => {
    const places = given.length > 0 ? given : readKeyPlaces(dataDir).directories;
    [first, ...mirrors] = places.map((each) => unwritable(path.resolve(each)));
  });
  const fault = unfit ?? first ?? (mirrors.includes(undefined) ? undefined : mirrors[0]);
  return fault && `${fault}: no key of payloads could be written, and every event would be refused`;
}

function reasonUnless(step: () => void): string | undefined {
  try {
    step();
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/**
 * Whether this host has the address, and this user may have the port. A port that is taken is no fault: the collector
 * that this configuration is for may be running.
 */
async function addressFault(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else resolve(`cannot listen on ${host}${error.code === 'EACCES' ? `:${port}` : ''}: ${error.message}`);
    });
    server.listen({ host, port: port < PRIVILEGED_BELOW ? port : 0 }, () =>
      server.close(() => resolve(undefined)),
    );
  });
}

/**
 * Settings that are allowed and unwise, with their sources; of a configuration with faults, those that can be read.
 * What cannot be seen on the disk is no warning: the start reports it.
 */
export function configWarnings(
  { sound, sourceOf, file }: ConfigReading,
  { tls, trustedProxies, sinks = [] }: FoundSettings,
  listen = true,
): ConfigFault[] {
  const warnings: ConfigFault[] = [];
  const warn = (name: string, message: string | undefined) => {
    if (message !== undefined) warnings.push({ source: sourceOf(name), message });
  };
  if (file !== undefined && modeOf(file) & 0o022) {
    warnings.push({
      source: file,
      message: 'other users may write it, and it can name a program to run: chmod go-w',
    });
  }
  const { host, management, managementHost, tlsCert, tlsKey, dataDir, checkpointSink } = sound;
  const inClear = (address: string | undefined) => address && !isLoopback(address) && !tlsCert;
  if (listen && inClear(host))
    warn('host', `${host} is reached from other machines, and keys and events travel in the clear`);
  if (management === 'on' && inClear(managementHost)) {
    warn(
      'management-host',
      `${managementHost} is reached from other machines, and the operator token travels in the clear`,
    );
  }
  // A group may read: that is how Kubernetes mounts a secret.
  if (tlsKey && modeOf(tlsKey) & 0o007) warn('tls-key', `every user may read ${tlsKey}: chmod 600`);
  const until = tls?.certificate.x509.validToDate;
  if (until !== undefined && until.getTime() < Date.now() + CERTIFICATE_SOON_MS) {
    warn('tls-cert', `the certificate ends on ${until.toISOString()}`);
  }
  warn('trusted-proxies', trustedProxies?.exposure);
  if (sound.logLevel === 'silent') warn('log-level', 'nothing will be logged, whatever happens');

  if (dataDir === undefined) return warnings;
  warn('data-dir', directoryTrouble(dataDir));
  if (sinks.length === 0 && checkpointSink !== undefined) {
    const { signingKeys } = sound;
    const keyToo =
      signingKeys !== undefined && signingProgram(signingKeys) === undefined && isWithin(signingKeys, dataDir)
        ? ', and the key that signs them lies beside the events'
        : '';
    warn(
      'checkpoint-sink',
      `no checkpoint leaves this host${keyToo}: who owns it could rewrite the log and no one could tell`,
    );
  }
  for (const sink of sinks) {
    if (sink.kind === 'program') warn('checkpoint-sink', programFault(sink.path));
    else if (sink.kind !== 'witness') warn('checkpoint-sink', sinkTrouble(sink, dataDir));
  }
  return warnings;
}

function directoryTrouble(dataDir: string): string | undefined {
  const stat = statOf(dataDir);
  if (stat === undefined) {
    const above = nearestExisting(dataDir);
    return unwritable(above) === undefined
      ? `${dataDir} is not there; a start would make it, and begin a new log`
      : `${dataDir} is not there, and this user may not make it: ${above} is not writable`;
  }
  if (!stat.isDirectory()) return undefined;
  return unwritable(dataDir, fs.constants.R_OK) ?? exposureOf(dataDir);
}

/** Of a sink that shares the fate of the data. */
function sinkTrouble(sink: ProgramSinkSpec, dataDir: string): string | undefined {
  if (isWithin(sink.path, dataDir)) return `${sink.shown} is in the data directory, and is lost with it`;
  const device = statOf(nearestExisting(sink.path))?.dev;
  return device !== undefined && device === statOf(dataDir)?.dev
    ? `${sink.shown} is on the same file system as the data; let it be on another machine`
    : undefined;
}

/** @param more rights that this user needs in it, besides those to make a file. */
function unwritable(directory: string, more = 0): string | undefined {
  try {
    if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true)
      return `there is no directory ${directory}`;
    fs.accessSync(directory, fs.constants.W_OK | fs.constants.X_OK | more);
    return undefined;
  } catch (error) {
    return systemCode(error) === 'EROFS'
      ? `${directory} is on a read-only file system`
      : `this user may not write in ${directory}`;
  }
}

/** The permissions of a file; 0 on Windows, which has others. */
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
