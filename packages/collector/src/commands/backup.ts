/** `collector backup`: brings a copy of the data directory up to date, once or every few seconds. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Config } from '../config.js';
import { aboutBytes, counted } from '../quantity.js';
import { hasKeys, keyInventory } from '../privacy/key-directories.js';
import { dataDirectory, standingNotes } from '../replica/data-directory.js';
import {
  assertContinues,
  backUp,
  checkpointThere,
  type CopySource,
  readState,
  type Round,
} from '../replica/replica.js';
import { AccessLogUnfit } from '../store/contract/access-log.js';
import { LogDiffers } from '../store/contract/copy.js';
import { StoreDamaged } from '../store/contract/events.js';
import { DirectoryInUse, lockDirectory } from '../store/directory-lock.js';
import { readKeyPlaces } from '../store/key-places.js';
import { copiedLog } from '../store/open-to-copy.js';
import { openStore } from '../store/open-to-read.js';
import { isNoRoom, messageOf, systemCode } from '../system-code.js';
import { signingDirectory, SigningKeyFault } from '../tree/key-files.js';
import { writeBackupNote } from '../tree/state-files.js';
import { type GivenOut, logAccess } from './access-log.js';
import { defineCommand } from './define.js';
import { CommandFailure, EXIT, type ExitCode, onStop, usage } from './exit-codes.js';
import { assertApart, assertLedger, checkRegular } from './regular-files.js';
import { printable, printableJson, ProgressBar, wrappedFor } from './terminal.js';
import { checkpointIn, newestCheckpoint } from './verify/log-checkpoints.js';
import { Unusable } from '../unusable.js';

const EXAMPLES = `  $ collector backup /mnt/backup/collector
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

/** Size from which a progress bar is shown. */
const BAR_FROM_MEBIBYTES = 64;
const FOLLOW_MS = 5000;

interface BackupOptions {
  readonly withSigningKeys?: true;
  readonly keysElsewhere?: true;
  readonly follow?: true;
  readonly json?: true;
}

export const command = defineCommand<BackupOptions>({
  name: 'backup',
  description: 'Copy the data directory while a collector runs; a later run copies only what is new.',
  arguments: { '<directory>': 'where to; made when it is not there' },
  options: {
    '--with-signing-keys': 'copy the private signing keys too',
    '--keys-elsewhere':
      'the keys of encrypted payloads, of which there is no mirror, are kept in another way',
    '--follow': 'make a round every 5 seconds, until a signal',
    '--json': 'print what was done as JSON; with --follow one line a round',
  },
  configuration: 'backup',
  examples: EXAMPLES,
  run: ({ options, config }, directory) => backUpTo(path.resolve(directory), config(), options),
});

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
    assertContinues(directory, await sourceOf(job));
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
  if (keysElsewhere || !hasKeys(places)) return;
  const whole = keyInventory(places).directories.filter(({ behind }) => behind === 0);
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

/** @throws CommandFailure, StoreDamaged, SigningKeyFault, AccessLogUnfit */
async function sourceOf({ directory, config, options }: Job): Promise<CopySource> {
  const { dataDir } = config;
  readState(directory);
  checkRegular(dataDir);
  const standing = standingNotes(dataDir);
  const found = await newestCheckpoint(dataDir, openStore(dataDir).tree);
  if (found === undefined) {
    throw new CommandFailure(
      `nothing is signed in ${dataDir} yet: the next start of a collector signs a checkpoint`,
      EXIT.failure,
    );
  }
  const { history, newest } = found;
  const { size: signed } = newest.checkpoint;
  const agreed = Math.min(checkpointThere(directory)?.size ?? 0, signed);
  const log = copiedLog(dataDir, { signed, agreed });
  if (log === undefined) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  return dataDirectory({
    ...{ dataDir, history, newest, log, standing },
    checkNote: (note) => void checkpointIn(note, history),
    signingKeys: options.withSigningKeys ? signingDirectory(config) : undefined,
    warn: (message) => process.stderr.write(`collector: warning: ${printable(message)}, and is left out\n`),
  });
}

/** For the console. A failure does not fail the back-up; a snapshot cannot be written, and has no console. */
function noteDone(dataDir: string, { state: { at, events } }: Round, follows: boolean): void {
  try {
    writeBackupNote(dataDir, { at: at ?? '', events, ...(follows && { follows }) });
  } catch (error) {
    if (systemCode(error) === 'EROFS') return;
    const reason = messageOf(error);
    process.stderr.write(
      `collector: warning: could not record the back-up for the console: ${printable(reason)}\n`,
    );
  }
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
  const fields = {
    directory: job.directory,
    ...{ origin, time, events, entries, signed_entries, last_received_at },
    segments_copied: segmentsCopied,
    segments_there: segmentsThere,
    bytes_written: bytes,
    signing_keys: holdsKeys(job),
    access_log_begun_anew: accessLogKept !== undefined,
    same_file_system: isOnOneDisk(job),
  };
  return `${printableJson(JSON.stringify(fields, undefined, job.options.follow ? undefined : 2))}\n`;
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
  if (hasKeys(readKeyPlaces(job.config.dataDir))) {
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
  if (error instanceof Unusable) return failure(message, EXIT.usage);
  if (error instanceof LogDiffers) {
    return failure(
      `this log does not go on from the one in ${directory}: ${message}. Nothing there was changed; ` +
        'docs/guide/back-up-and-restore.md, "A log that has diverged from its back-up", says what to do',
      EXIT.damaged,
    );
  }
  if (error instanceof AccessLogUnfit) {
    return failure('access.log is not a regular file, and was not opened', EXIT.damaged);
  }
  if (error instanceof StoreDamaged) {
    return failure(`${message}; the back-up of before is whole; see collector verify`, EXIT.damaged);
  }
  if (error instanceof SigningKeyFault) {
    return failure(message, error.reason === 'key-missing' ? EXIT.notFound : EXIT.damaged);
  }
  return error;
}
