/** `collector backup`: brings a copy of the data directory up to date, once or every few seconds. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { keyIdText } from '@clinical-events/protocol/verify';
import { Command } from 'commander';
import {
  type BackedUpLog,
  DirectoryUnfit,
  type Round,
  assertGoesOn,
  backUp,
  checkpointThere,
  readState,
} from '../backup/backup.js';
import type { Config } from '../config.js';
import { exists } from '../files.js';
import { aboutBytes, counted } from '../quantity.js';
import { AccessLogUnfit } from '../store/contract/access-log.js';
import { LogDiffers } from '../store/contract/copy.js';
import { StoreDamaged } from '../store/contract/events.js';
import { DirectoryInUse, lockDirectory } from '../store/directory-lock.js';
import { KeyDatabase, keyDatabasePath } from '../store/open-keys.js';
import { checkpointDirectory, openStore } from '../store/open-to-read.js';
import { copiedAccessLog, copiedLog } from '../store/open-to-audit.js';
import { readKeyPlaces } from '../store/key-places.js';
import { hasKeys, keyInventory, keysOnDisk } from '../privacy/key-directory.js';
import { systemCode } from '../system-code.js';
import { type KeyHistory, PrivateKeys, signingDirectory, SigningKeyFault } from '../tree/key-files.js';
import { readMirrorNote, writeBackupNote } from '../tree/state-files.js';
import { type GivenOut, logAccess } from './access-log.js';
import { CommandFailure, EXIT, type ExitCode, onStop, usage } from './exit-codes.js';
import { ProgressBar, printable, printableJson, wrappedFor } from './terminal.js';
import { assertLedger, checkRegular } from './regular-files.js';
import { checkpointIn, newestCheckpoint } from './verify/log-checkpoints.js';
import { addConfigOptions, configOf } from './arguments.js';
import { RECORDS, recordFile } from './lifecycle/holds.js';

/*
 * A data directory as it is backed up, beside a running collector or without one. Nothing is changed in it.
 *
 * Things are read in the order that keeps them consistent: cosigned and kept checkpoints, the newest one, the keys (a
 * rotation is noted before its key signs), and then the log, which by then holds what all of these speak of. The log is
 * taken as far as it can be read, behind the newest checkpoint too: these events may have been acknowledged.
 */

const KEPT = /^(\d{16})\.checkpoint$/;
const COSIGNED = /^cosigned-[0-9a-f]{8}$/;

export interface BackupSourceOptions {
  readonly dataDir: string;
  /** Directory of the private keys that are to be copied too; undefined when they are not. */
  readonly signingKeys: string | undefined;
  /** How many entries the newest checkpoint of the back-up covers; 0 when there is none yet. */
  readonly agreed: number;
  /** Told of what is left out because it is not sound, and can be done without. */
  readonly warn: (message: string) => void;
}

/**
 * What is there now. On return all of it is on stable storage.
 * @throws CommandFailure, StoreDamaged, SigningKeyFault
 */
export async function backedUpLog(options: BackupSourceOptions): Promise<BackedUpLog> {
  const { dataDir, signingKeys, agreed, warn } = options;
  checkRegular(dataDir);
  const directory = checkpointDirectory(dataDir);
  const names = exists(directory) ? fs.readdirSync(directory).sort() : [];
  const cosigned = names
    .filter((name) => COSIGNED.test(name))
    .map((name) => [name, textOf(dataDir, `checkpoints/${name}`)] as const);
  const found = await newestCheckpoint(dataDir, openStore(dataDir).tree);
  if (found === undefined) {
    throw new CommandFailure(
      `nothing is signed in ${dataDir} yet: the next start of a collector signs a checkpoint`,
      EXIT.failure,
    );
  }
  const { history, newest } = found;
  const { checkpoint } = newest;
  const log = copiedLog(dataDir, checkpoint.size, Math.min(agreed, checkpoint.size));
  if (log === undefined) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  const sound = cosigned.filter(([name, note]) =>
    isOfLog(note, history, (why) => warn(`checkpoints/${name} ${why}`)),
  );
  const small = sound.map(([name, note]): Small => [`checkpoints/${name}`, Buffer.from(note)]);
  return {
    ...{ origin: history.origin, checkpoint, note: newest.note, log },
    files: new Map([
      ...publicKeys(history),
      ...keptCheckpoints(dataDir, names, history, checkpoint.size),
      ...small,
      ...lifecycleRecords(dataDir),
      ...mirrorNote(dataDir),
    ]),
    signingKeys: new Map(signingKeys === undefined ? [] : privateKeys(signingKeys, history)),
    accessLog: () => accessLog(dataDir),
    copyKeys: (file) => copyKeys(dataDir, file),
  };
}

/** A small file by its name in the data directory. */
type Small = readonly [file: string, bytes: Buffer];

function publicKeys({ first, rotations }: KeyHistory): Small[] {
  const text = (file: string, content: string): Small => [file, Buffer.from(content)];
  return [
    text('checkpoints/origin.vkey', `${first}\n`),
    ...rotations.map((note, i) => text(`checkpoints/rotations/${String(i + 1).padStart(4, '0')}.note`, note)),
  ];
}

/** Without those of holds nothing can be erased from what is restored, without those of erasures no certificate is whole. */
function lifecycleRecords(dataDir: string): Small[] {
  const directories = RECORDS.map((kind) => path.dirname(recordFile('', kind, '')));
  return directories.flatMap((directory) => {
    const there = path.join(dataDir, directory);
    if (!exists(there)) return [];
    const names = fs.readdirSync(there).filter((name) => name.endsWith('.json'));
    return names.map((name): Small => [path.join(directory, name), fs.readFileSync(path.join(there, name))]);
  });
}

/** Without it a collector could be started on a copy of a mirror. What it has forwarded is not in the copy. */
function mirrorNote(dataDir: string): Small[] {
  const note = readMirrorNote(dataDir);
  if (note === undefined) return [];
  return [['checkpoints/mirror.json', Buffer.from(`${JSON.stringify({ ...note, forwarded: 0 })}\n`)]];
}

/** Those that the newest one goes on from. */
function keptCheckpoints(
  dataDir: string,
  names: readonly string[],
  history: KeyHistory,
  size: number,
): Small[] {
  return names
    .filter((name) => Number(KEPT.exec(name)?.[1] ?? Infinity) <= size)
    .map((name): Small => {
      const file = `checkpoints/${name}`;
      const note = textOf(dataDir, file);
      isOfLog(note, history, (why) => {
        throw new CommandFailure(`${file} ${why}; see collector verify`, EXIT.damaged);
      });
      return [file, Buffer.from(note)];
    });
}

function isOfLog(note: string, history: KeyHistory, refuse: (why: string) => void): boolean {
  try {
    checkpointIn(note, history);
    return true;
  } catch (error) {
    refuse(`is not a checkpoint of this log: ${error instanceof Error ? error.message : String(error)}`);
    return false;
  }
}

/** Of all keys that the log has had, those that are there: a key that was rotated is destroyed some time. */
function privateKeys(directory: string, { keys, current }: KeyHistory): Small[] {
  const files = new PrivateKeys(directory);
  return keys
    .filter((key) => key === current || exists(files.pathOf(key)))
    .map((key): Small => {
      files.read(key);
      return [`signing-keys/${keyIdText(key.keyId)}.pem`, fs.readFileSync(files.pathOf(key))];
    });
}

/** Up to the last line that is whole: another process may be writing behind that. */
function accessLog(dataDir: string): ReturnType<BackedUpLog['accessLog']> {
  try {
    return copiedAccessLog(dataDir);
  } catch (error) {
    if (!(error instanceof AccessLogUnfit)) throw error;
    throw new CommandFailure('access.log is no regular file, and was not opened', EXIT.damaged, {
      cause: error,
    });
  }
}

/** @returns false when there are none. */
export async function copyKeys(dataDir: string, file: string): Promise<boolean> {
  if (!exists(keyDatabasePath(dataDir))) return false;
  const keys = KeyDatabase.openReadOnly(dataDir);
  try {
    await keys.copyTo(file);
    return true;
  } finally {
    await keys.close();
  }
}

function textOf(dataDir: string, file: string): string {
  return fs.readFileSync(path.join(dataDir, file), 'utf8');
}

const EXAMPLES = `
Examples:
  $ collector backup /mnt/backup/collector
  $ collector backup /mnt/backup/collector --follow
  $ collector verify --data-dir /mnt/backup/collector

The back-up is a data directory, without what is derived from the log (index, tree, catalogue). It is made while a
collector runs or without one. The first run copies everything, each later one only what is new. If a run is killed or
the disk is full, the back-up of before is still whole, and the next run goes on.

--follow makes a round every 5 seconds until a signal ends it. When the disk of the collector dies, what was
acknowledged after the last completed round is lost; backup.json in the directory has its time.

The directory holds what the events hold, and the hashes of the API keys. Where payloads are encrypted, they are so in
the back-up, and their keys are never in it: a mirror of them has to be there, or --keys-elsewhere given. The private signing keys are left out unless
--with-signing-keys is given; a later run without it leaves those that are there.

The back-up is logged in access.log in the data directory, and for the console, which warns when the last one is too old
(limits.backup-max-age-ms in the configuration): run it as the collector's user.

Exit codes: 0 the back-up is there; 3 the log is damaged, or it does not go on from the back-up; 2 the directory holds
something else, 5 another back-up is being written to it, 6 there is no log, 1 nothing is signed yet, no room is left, or
something could not be read.`;

/** Less is copied before anybody wonders. */
const BAR_FROM_MEBIBYTES = 64;
const FOLLOW_MS = 5000;

interface BackupOptions {
  readonly withSigningKeys?: true;
  readonly keysElsewhere?: true;
  readonly follow?: true;
  readonly json?: true;
}

export function command(): Command {
  const backup = new Command('backup')
    .description('Copy the data directory while a collector runs; a later run copies only what is new.')
    .argument('<directory>', 'where to; made when it is not there')
    .option('--with-signing-keys', 'copy the private signing keys too')
    .option(
      '--keys-elsewhere',
      'the keys of encrypted payloads, of which there is no mirror, are kept in another way',
    )
    .option('--follow', 'make a round every 5 seconds, until a signal')
    .option('--json', 'print what was done as JSON; with --follow one line a round');
  return addConfigOptions(backup, 'backup')
    .addHelpText('after', EXAMPLES)
    .action(async (directory: string, options: BackupOptions, self: Command) => {
      await backUpTo(path.resolve(directory), configOf(self, 'backup'), options);
    });
}

/** What all rounds of a process share. */
interface Job {
  readonly directory: string;
  readonly config: Config;
  readonly options: BackupOptions;
  givenOut: GivenOut | undefined;
}

async function backUpTo(directory: string, config: Config, options: BackupOptions): Promise<void> {
  const { dataDir } = config;
  assertLedger(dataDir);
  assertApart(directory, dataDir, 'the data directory');
  assertKeysKept(dataDir, options);
  const job: Job = { directory, config, options, givenOut: undefined };
  try {
    // Before anything is made there: it may be the wrong directory.
    assertGoesOn(directory, await sourceOf(job));
    const lock = lockDirectory(directory);
    try {
      if (options.follow) await follow(job);
      else await round(job, undefined);
    } finally {
      lock.release();
    }
  } catch (error) {
    throw backupFailure(error, directory);
  }
}

/** A back-up never holds the keys of payloads, and is worth nothing when they are lost with the host. */
function assertKeysKept(dataDir: string, { keysElsewhere }: BackupOptions): void {
  const places = readKeyPlaces(dataDir);
  if (keysElsewhere || !hasKeys(keysOnDisk, places)) return;
  const whole = keyInventory(keysOnDisk, places).directories.filter(({ behind }) => behind === 0);
  if (whole.length > 1) return;
  throw usage(
    `the payloads of this log are encrypted, and their keys are in ${whole.map(({ directory }) => directory).join()} alone; a back-up never ` +
      'holds them. Name a mirror on another disk (collector serve --encryption-keys DIR,MIRROR), or say ' +
      '--keys-elsewhere when they are kept in another way',
  );
}

/** What is wrong for a time, like a full disk, is reported once and tried again. */
async function follow(job: Job): Promise<void> {
  const stop = new AbortController();
  onStop(() => stop.abort());
  let shown: Round | undefined;
  let trouble = '';
  while (!stop.signal.aborted) {
    try {
      shown = await round(job, shown);
      trouble = '';
    } catch (error) {
      const failure = backupFailure(error, job.directory);
      if (!isPassing(failure)) throw failure;
      if (failure.message !== trouble) process.stderr.write(`collector: ${failure.message}\n`);
      trouble = failure.message;
    }
    await pause(FOLLOW_MS, undefined, { signal: stop.signal }).catch(() => undefined);
  }
}

function isPassing(failure: unknown): failure is Error {
  if (failure instanceof CommandFailure) return failure.exitCode === EXIT.failure;
  return systemCode(failure) !== undefined;
}

/** @param before the round whose outcome was printed last; nothing is printed of one that copied nothing more. */
async function round(job: Job, before: Round | undefined): Promise<Round> {
  const { directory, config, options } = job;
  const at = new Date().toISOString();
  if (job.givenOut === undefined) {
    const { follow, withSigningKeys } = options;
    const filter = { directory, follow, signing_keys: withSigningKeys };
    job.givenOut = logAccess(config.dataDir, { command: 'backup', filter, isAct: withSigningKeys });
  }
  const bar = barFor(options);
  try {
    const done = await backUp(directory, await sourceOf(job), at, bar.show);
    bar.clear();
    Object.assign(job.givenOut, { events: done.state.events, complete: true });
    noteDone(config.dataDir, done, options.follow === true);
    if (before !== undefined && before.state.entries === done.state.entries) return before;
    process.stdout.write(options.json ? asJson(job, done) : report(job, done));
    return done;
  } finally {
    bar.clear();
  }
}

function sourceOf({ directory, config, options }: Job): ReturnType<typeof backedUpLog> {
  readState(directory);
  return backedUpLog({
    dataDir: config.dataDir,
    signingKeys: options.withSigningKeys ? signingDirectory(config) : undefined,
    agreed: checkpointThere(directory)?.size ?? 0,
    warn: (message) => process.stderr.write(`collector: warning: ${printable(message)}, and is left out\n`),
  });
}

/** For the console. What was copied is there all the same; a snapshot cannot be written, and has no console. */
function noteDone(dataDir: string, { state: { at, events } }: Round, follows: boolean): void {
  try {
    writeBackupNote(dataDir, { at: at ?? '', events, ...(follows && { follows }) });
  } catch (error) {
    if (systemCode(error) === 'EROFS') return;
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(
      `collector: warning: it could not be noted for the console that a back-up was made: ${printable(reason)}\n`,
    );
  }
}

/** A copy inside of what is copied is none. */
export function assertApart(directory: string, other: string, what: string): void {
  const [one, two] = [directory, other].map(real);
  const holds = (outer = '', inner = '') => inner === outer || inner.startsWith(`${outer}${path.sep}`);
  if (holds(one, two) || holds(two, one))
    throw usage(`${directory} and ${what}, ${other}, are one inside the other`);
}

/** As far as it is there. */
export function real(directory: string): string {
  const resolved = path.resolve(directory);
  if (fs.existsSync(resolved)) return fs.realpathSync(resolved);
  return path.join(real(path.dirname(resolved)), path.basename(resolved));
}

function barFor({ json }: BackupOptions): ProgressBar {
  const wanted = json !== true && process.stderr.isTTY;
  return new ProgressBar({ wanted, unit: 'MiB', per: 1 << 20, from: BAR_FROM_MEBIBYTES, rate: true });
}

/** On one disk the copy is lost with what it is a copy of. */
function isOnOneDisk({ directory, config }: Job): boolean {
  return fs.statSync(directory).dev === fs.statSync(path.join(config.dataDir, 'ledger')).dev;
}

/** Keys that an earlier run was asked for stay there. */
function holdsKeys({ directory }: Job): boolean {
  return fs.existsSync(path.join(directory, 'signing-keys'));
}

/** For scripts; the names are a promise. */
function asJson(job: Job, { state, bytes, segmentsCopied, segmentsThere, accessLogKept }: Round): string {
  const { origin, at: time, events, entries, signed_entries, last_received_at } = state;
  const told = {
    directory: job.directory,
    ...{ origin, time, events, entries, signed_entries, last_received_at },
    segments_copied: segmentsCopied,
    segments_there: segmentsThere,
    bytes_written: bytes,
    signing_keys: holdsKeys(job),
    access_log_begun_anew: accessLogKept !== undefined,
    same_file_system: isOnOneDisk(job),
  };
  return `${printableJson(JSON.stringify(told, undefined, job.options.follow ? undefined : 2))}\n`;
}

function report(job: Job, done: Round): string {
  const { state, bytes, accessLogKept } = done;
  const until = state.last_received_at === null ? '' : `, the last received at ${state.last_received_at}`;
  const held = `${counted(state.events, 'event')} of ${printable(state.origin)}${until}`;
  if (job.options.follow) return `${state.at ?? ''} ${held}; ${aboutBytes(bytes)} copied\n`;
  const lines = [
    `${job.directory} holds ${held}. ${aboutBytes(bytes)} of the log copied now.`,
    holdsKeys(job)
      ? 'It holds the private signing keys: anyone who can read it can sign in the name of this log.'
      : 'The private signing keys are not in it: a restored log goes on only with them, so keep a copy elsewhere, or ' +
        'give --with-signing-keys.',
  ];
  if (hasKeys(keysOnDisk, readKeyPlaces(job.config.dataDir))) {
    lines.push(
      'Its payloads are encrypted, and their keys are not in it: keep the mirror of them elsewhere.',
    );
  }
  if (isOnOneDisk(job)) {
    lines.push('It is on the same file system as the log, and is lost with it: keep one on another machine.');
  }
  if (accessLogKept !== undefined) {
    lines.push(
      `access.log does not go on from the one that was backed up before, which is kept as ${accessLogKept}.`,
    );
  }
  return lines.map((line) => `${wrappedFor(process.stdout, line)}\n`).join('');
}

/** @returns what to throw instead. */
function backupFailure(error: unknown, directory: string): unknown {
  const failure = (message: string, code: ExitCode) => new CommandFailure(message, code, { cause: error });
  if (isNoRoom(error)) {
    const code = systemCode(error) ?? 'full';
    return failure(
      `no room is left (${code}); the back-up of before in ${directory} is whole, and the next run goes on`,
      EXIT.failure,
    );
  }
  if (!(error instanceof Error)) return error;
  // Names in it may be someone else's.
  const message = printable(error.message);
  if (error instanceof DirectoryInUse) {
    return failure(`another back-up is being written to ${directory}`, EXIT.inUse);
  }
  if (error instanceof DirectoryUnfit) return failure(message, EXIT.usage);
  if (error instanceof LogDiffers) {
    return failure(
      `this log does not go on from the one in ${directory}: ${message}. Nothing there was changed; ` +
        'docs/guide/back-up-and-restore.md, "A log that has diverged from its back-up", says what to do',
      EXIT.damaged,
    );
  }
  if (error instanceof StoreDamaged) {
    return failure(`${message}; the back-up of before is whole; see collector verify`, EXIT.damaged);
  }
  if (error instanceof SigningKeyFault) {
    return failure(message, error.reason === 'key-missing' ? EXIT.notFound : EXIT.damaged);
  }
  return error;
}

/** On a file system, in a quota, or under a limit. */
export function isNoRoom(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(systemCode(error) ?? '');
}
