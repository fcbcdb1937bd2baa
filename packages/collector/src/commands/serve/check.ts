/**
 * `collector serve --check`: checks options, environment and file as a start would, and binds the addresses
 * for a moment. Starts and changes nothing. Stored data is checked by `collector doctor`.
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

/** Ports below this need privileges. */
const PRIVILEGED_BELOW = 1024;

/** Remaining validity below which a certificate causes a warning, in milliseconds. */
const CERTIFICATE_SOON_MS = 21 * 86_400_000;

/**
 * @param listen whether the collector would take events.
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
      // A faulty list of sinks may contain a password.
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
 * Faults for which a start would fail although every option is valid: the log's name and keys, the signing
 * program, the addresses. Checks of an invalid option are skipped.
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
          add('log-origin', `this log was created as ${current.name}, which cannot be changed`);
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

/**
 * Why payload keys could not be stored: this user cannot write the first directory, or any of its mirrors.
 */
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
  return fault && `${fault}: payload keys could not be written, and every event would be refused`;
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
 * Checks that this host has the address and this user may use the port. A port in use is not a fault: the
 * collector of this configuration may be running.
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
 * Valid but unwise settings, with their sources; invalid settings are skipped. A fact that the disk does not
 * show is not a warning: the start reports it.
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
      message: 'other users can write it, and it can name a program to run: chmod go-w',
    });
  }
  const { host, management, managementHost, tlsCert, tlsKey, dataDir, checkpointSink } = sound;
  const inClear = (address: string | undefined) => address && !isLoopback(address) && !tlsCert;
  if (listen && inClear(host))
    warn('host', `${host} is reachable from other machines; keys and events are sent unencrypted`);
  if (management === 'on' && inClear(managementHost)) {
    warn(
      'management-host',
      `${managementHost} is reachable from other machines; the operator token is sent unencrypted`,
    );
  }
  // Group access is allowed: Kubernetes mounts secrets that way.
  if (tlsKey && modeOf(tlsKey) & 0o007) warn('tls-key', `every user can read ${tlsKey}: chmod 600`);
  const until = tls?.certificate.x509.validToDate;
  if (until !== undefined && until.getTime() < Date.now() + CERTIFICATE_SOON_MS) {
    warn('tls-cert', `the certificate expires on ${until.toISOString()}`);
  }
  warn('trusted-proxies', trustedProxies?.exposure);
  if (sound.logLevel === 'silent') warn('log-level', 'nothing will be logged');

  if (dataDir === undefined) return warnings;
  warn('data-dir', directoryTrouble(dataDir));
  if (sinks.length === 0 && checkpointSink !== undefined) {
    const { signingKeys } = sound;
    const keyToo =
      signingKeys !== undefined && signingProgram(signingKeys) === undefined && isWithin(signingKeys, dataDir)
        ? ', and the key that signs them is stored beside the events'
        : '';
    warn(
      'checkpoint-sink',
      `checkpoints are not copied to another host${keyToo}: the owner of this host could rewrite the log ` +
        'unnoticed',
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
      ? `${dataDir} does not exist; a start would create it and begin a new log`
      : `${dataDir} does not exist, and this user cannot create it: ${above} is not writable`;
  }
  if (!stat.isDirectory()) return undefined;
  return unwritable(dataDir, fs.constants.R_OK) ?? exposureOf(dataDir);
}

/** Warns of a sink that would be lost together with the data. */
function sinkTrouble(sink: ProgramSinkSpec, dataDir: string): string | undefined {
  if (isWithin(sink.path, dataDir)) return `${sink.shown} is in the data directory and would be lost with it`;
  const device = statOf(nearestExisting(sink.path))?.dev;
  return device !== undefined && device === statOf(dataDir)?.dev
    ? `${sink.shown} is on the same file system as the data; use one on another machine`
    : undefined;
}

/** @param more access rights to check, in addition to creating files. */
function unwritable(directory: string, more = 0): string | undefined {
  try {
    if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true)
      return `there is no directory ${directory}`;
    fs.accessSync(directory, fs.constants.W_OK | fs.constants.X_OK | more);
    return undefined;
  } catch (error) {
    return systemCode(error) === 'EROFS'
      ? `${directory} is on a read-only file system`
      : `this user cannot write to ${directory}`;
  }
}

/** The permissions of a file; 0 on Windows, which has different ones. */
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
    // The file is in a directory that this user may not enter.
    return undefined;
  }
}
