/** `collector backup`: copies the data directory, once or every few seconds. */
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

The back-up is a data directory without the files that are derived from the log (index, tree, catalogue). A
collector may run meanwhile. The first run copies everything, each later run only what is new. If a run is
killed or the disk is full, the previous back-up stays intact and the next run continues.

--follow copies every 5 seconds until a signal ends it. If the collector's disk fails, events acknowledged
after the last completed round are lost; backup.json in the directory has the time of that round.

The directory holds the events and the hashes of the API keys. Encrypted payloads stay encrypted, and their
keys are never in the back-up: mirror them, or give --keys-elsewhere. The private signing keys are copied only
with --with-signing-keys; a later run without it keeps those that are there.

The back-up is logged in access.log in the data directory. The console warns when the last back-up is too old
(limits.backup-max-age-ms in the configuration), so run this as the collector's user.

Exit codes: 0 the back-up is complete; 3 the log is damaged, or does not continue the log in the back-up; 2
the directory holds something else; 5 another back-up is writing to it; 6 there is no log; 1 nothing is signed
yet, the disk is full, or something could not be read.`;

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
  arguments: { '<directory>': 'target; created if missing' },
  options: {
    '--with-signing-keys': 'copy the private signing keys as well',
    '--keys-elsewhere': 'payload keys without a mirror are kept in another way',
    '--follow': 'copy every 5 seconds until a signal',
    '--json': 'print the result as JSON; with --follow one line per round',
  },
  configuration: 'backup',
  examples: EXAMPLES,
  run: ({ options, config }, directory) => backUpTo(path.resolve(directory), config(), options),
});

/** State that the rounds of one process share. */
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
    // The target is checked before anything is written: it may be the wrong directory.
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

/** A back-up never contains the payload keys, and is worthless if they are lost with the host. */
function assertKeysKept(dataDir: string, { keysElsewhere }: BackupOptions): void {
  const places = readKeyPlaces(dataDir);
  if (keysElsewhere || !hasKeys(places)) return;
  const whole = keyInventory(places).directories.filter(({ behind }) => behind === 0);
  if (whole.length > 1) return;
  const only = whole.map(({ directory }) => directory).join();
  throw usage(
    `the payloads of this log are encrypted, and their keys are only in ${only}; a back-up never contains ` +
      'them. Name a mirror on another disk (collector serve --encryption-keys DIR,MIRROR), or give ' +
      '--keys-elsewhere if they are kept in another way',
  );
}

/** Repeats rounds. A temporary failure, such as a full disk, is reported once and retried. */
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

/** @param before the last round that was printed; a round that adds nothing to it is not printed. */
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
      `nothing is signed in ${dataDir} yet: a collector signs a checkpoint when it starts`,
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

/**
 * Records the back-up for the console. A failure does not fail the back-up; a read-only snapshot has no
 * console.
 */
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

/** Whether the copy would be lost together with the log. */
function isOnOneDisk({ directory, config }: Job): boolean {
  return fs.statSync(directory).dev === fs.statSync(path.join(config.dataDir, 'ledger')).dev;
}

/** Whether it holds signing keys, also from an earlier run. */
function holdsKeys({ directory }: Job): boolean {
  return fs.existsSync(path.join(directory, 'signing-keys'));
}

/** The output for programs, which rely on the names. */
function asJson(job: Job, { state, bytes, segmentsCopied, segmentsThere, accessLogKept }: Round): string {
  const { origin, at: time, events, entries, signed_entries, last_received_at } = state;
  const fields = {
    directory: job.directory,
    ...{ origin, time, events, entries, signed_entries, last_received_at },
    segments_copied: segmentsCopied,
    segments_there: segmentsThere,
    bytes_written: bytes,
    signing_keys: holdsKeys(job),
    access_log_restarted: accessLogKept.length > 0,
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
      : 'It does not hold the private signing keys: a restored log can continue only with them, so keep a ' +
        'copy elsewhere, or give --with-signing-keys.',
  ];
  if (hasKeys(readKeyPlaces(job.config.dataDir))) {
    lines.push(
      'Its payloads are encrypted and their keys are not in it: keep a mirror of the keys elsewhere.',
    );
  }
  if (isOnOneDisk(job)) {
    lines.push('It is on the file system of the log and would be lost with it: keep one on another machine.');
  }
  if (accessLogKept.length > 0) {
    lines.push(
      'The access log does not continue the one that was backed up before, which is kept as ' +
        `${accessLogKept.join(', ')}.`,
    );
  }
  return lines.map((line) => `${wrappedFor(process.stdout, line)}\n`).join('');
}

/** Translates errors into failures for the operator. */
function backupFailure(error: unknown, directory: string): unknown {
  const failure = (message: string, code: ExitCode) => new CommandFailure(message, code, { cause: error });
  if (isNoRoom(error)) {
    const code = systemCode(error) ?? 'full';
    return failure(
      `the disk is full (${code}); the previous back-up in ${directory} is intact; the next run continues`,
      EXIT.failure,
    );
  }
  if (!(error instanceof Error)) return error;
  // File names in it may come from others.
  const message = printable(error.message);
  if (error instanceof DirectoryInUse) {
    return failure(`another back-up is being written to ${directory}`, EXIT.inUse);
  }
  if (error instanceof Unusable) return failure(message, EXIT.usage);
  if (error instanceof LogDiffers) {
    return failure(
      `this log does not continue the one in ${directory}: ${message}. Nothing was changed there; see ` +
        'docs/guide/back-up-and-restore.md, "A log that has diverged from its back-up"',
      EXIT.damaged,
    );
  }
  if (error instanceof AccessLogUnfit) return failure(message, EXIT.damaged);
  if (error instanceof StoreDamaged) {
    return failure(`${message}; the previous back-up is intact; see collector verify`, EXIT.damaged);
  }
  if (error instanceof SigningKeyFault) {
    return failure(message, error.reason === 'key-missing' ? EXIT.notFound : EXIT.damaged);
  }
  return error;
}
