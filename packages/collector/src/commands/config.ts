/** `collector config check`: says what `collector serve` would make of its options, the environment and the file. */
import fs, { statSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { Command } from 'commander';
import { type Config, ConfigError, type ConfigFault, type ConfigReading } from '../config.js';
import { isLoopback } from '../loopback.js';
import { exposureOf } from '../store/directory-lock.js';
import { isShared } from '../store/open.js';
import { notesKeys, readKeyPlaces } from '../store/key-places.js';
import { systemCode } from '../system-code.js';
import { programFault } from '../transparency/command-signer.js';
import { checkOrigin, hasHistory, readHistory, PrivateKeys } from '../transparency/key-files.js';
import { type SinkSpec, SinkSpecInvalid, parseSinks } from '../transparency/sink.js';
import { EXIT } from './exit-codes.js';
import { type FoundSettings, findSettings } from './serve/resolved-config.js';
import { alignedTable, legible, printableJson } from './terminal.js';
import { addConfigOptions, readingOf } from './arguments.js';

/*
 * What a start would refuse although every option is sound: the log's name and keys, the program that signs, addresses.
 * Reads, and tries addresses for an instant; makes and changes nothing. What is stored is for `collector doctor`.
 */

/** An option's name, and why it cannot be. */
export interface StartFault {
  readonly option: string;
  readonly message: string;
}

/** Below this a port is for root, or for whom the system says. */
const PRIVILEGED_BELOW = 1024;

/** @param sound the options without a fault of their own; what hangs on another is left out. */
export async function startFaults(sound: Partial<Config>): Promise<StartFault[]> {
  const faults: StartFault[] = [];
  const add = (option: string, message: string | undefined) => {
    if (message !== undefined) faults.push({ option, message });
  };
  const { dataDir, signingKeys, signingCommand, logOrigin } = sound;
  if (signingCommand) add('signing-command', programFault(signingCommand));
  if (logOrigin)
    add(
      'log-origin',
      reasonUnless(() => checkOrigin(logOrigin)),
    );
  if (dataDir !== undefined && signingKeys !== undefined && signingCommand !== undefined) {
    add(
      signingCommand === '' ? 'signing-keys' : 'data-dir',
      reasonUnless(() => {
        if (!isDirectory(dataDir) || !hasHistory(dataDir)) return;
        const { current } = readHistory(dataDir);
        if (logOrigin && current.name !== logOrigin)
          add('log-origin', `this log began as ${current.name}, and its name stays`);
        if (signingCommand === '') new PrivateKeys(signingKeys).read(current);
      }),
    );
  }
  add('encryption-keys', keysFault(sound));
  const { host, port, management, managementHost, managementPort } = sound;
  if (host !== undefined && port !== undefined) add('host', await addressFault(host, port));
  if (management === 'on' && managementHost !== undefined && managementPort !== undefined)
    add('management-host', await addressFault(managementHost, managementPort));
  return faults;
}

/** Why this user could make no key of payloads durable: not in the first directory, or in none of its mirrors. */
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

function unwritable(directory: string): string | undefined {
  if (!isDirectory(directory)) return `there is no directory ${directory}`;
  try {
    fs.accessSync(directory, fs.constants.W_OK | fs.constants.X_OK);
    return undefined;
  } catch (error) {
    return systemCode(error) === 'EROFS'
      ? `${directory} is on a read-only file system`
      : `this user may not write in ${directory}`;
  }
}

function isDirectory(place: string): boolean {
  return statSync(place, { throwIfNoEntry: false })?.isDirectory() === true;
}

function reasonUnless(step: () => void): string | undefined {
  try {
    step();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
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

/*
 * What a configuration may say and had better not. Looks at the disk, and changes nothing there; what it cannot see is
 * no warning, because the start will tell.
 */

/** So long before its end a certificate is worth a thought, in milliseconds. */
const CERTIFICATE_SOON_MS = 21 * 86_400_000;

/**
 * @param found what the options name, as far as it can be used.
 * @returns a line each, with who said it. Also for a configuration with faults, as far as it can be read.
 */
export function configWarnings({ settings, file }: ConfigReading, found: FoundSettings = {}): ConfigFault[] {
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
      `no checkpoint leaves this host${keyToo}: who owns it could rewrite the log and no one could tell`,
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

const EXAMPLES = `
Takes the options of collector serve and reads the same environment and the same file. It says everything that is
wrong and where that was said; or else prints what every option is and who said so, and warns of what is allowed and
unwise. It starts nothing and changes nothing. Run it as the user that the collector runs as: rights are looked at.

Examples:
  $ collector config check --config /etc/collector/collector.json
  $ collector config check --config new.json && sudo systemctl reload collector
  $ collector config check --json | jq '.settings[] | select(.from != "default")'

Exit codes: 0 it can be used (there may be warnings), 2 it cannot.`;

export function command(): Command {
  const check = new Command('check')
    .summary('check the configuration, and say where each value comes from')
    .description('Check the configuration of collector serve, and say where each value comes from.')
    .option('--json', 'print one JSON object');
  addConfigOptions(check, 'serve')
    .addHelpText('after', EXAMPLES)
    .action(async (options: { json?: true }, self: Command) => {
      process.exitCode = await report(readingOf(self, 'serve'), options.json === true);
    });
  return new Command('config').description('Check the configuration.').addCommand(check);
}

/** @returns the exit code. @throws ConfigError with every fault, unless it is told as JSON. */
async function report(reading: ConfigReading, json: boolean): Promise<number> {
  const { settings } = reading;
  const { found, faults: foundFaults } = await findSettings(reading);
  const faults = [...foundFaults];
  for (const { option, message } of await startFaults(reading.sound))
    faults.push({ source: settings.find(({ name }) => name === option)?.source ?? option, message });
  const warnings = configWarnings(reading, found);
  if (json) {
    const told = settings
      // A faulty list of sinks may hold a password.
      .filter(({ source }) => !faults.some((fault) => fault.source === source))
      .map(({ name, value, from, source, reloadable }) => ({ name, value, from, source, reloadable }));
    const answer = { usable: faults.length === 0, faults, warnings, settings: told };
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
