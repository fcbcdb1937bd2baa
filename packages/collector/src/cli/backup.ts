/** `collector backup`: copies all that cannot be made again to a directory of back-ups, while a collector runs. */
import fs from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import { checkBackup, type BackupCheck } from '../backup/backup-check.js';
import { BackupFiles } from '../backup/backup-files.js';
import { backUp, type RunResult } from '../backup/backup-run.js';
import { assertMayHold, BackupWriter } from '../backup/backup-writer.js';
import type { Config } from '../config.js';
import { counted } from '../counted.js';
import { exists } from '../files.js';
import { writeBackupNote } from '../transparency/state-files.js';
import { lockDirectory } from '../store/open.js';
import { systemCode } from '../system-code.js';
import { backupFailure } from './backup-faults.js';
import { contradictionIn } from './backup-proof.js';
import { backedUpLog } from './backup-source.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { usage } from './key-arguments.js';
import { noteReading } from './noted-reading.js';
import { printable, printableJson } from './printable.js';
import { ProgressBar } from './progress-bar.js';
import { version } from './version.js';
import { wrappedFor } from './wrapped.js';

const EXAMPLES = `
Examples:
  $ collector backup /mnt/backup/collector
  $ collector backup /mnt/backup/collector --json | jq .bytes_written
  $ collector backup /mnt/backup/collector --check

It runs beside a collector or without one, and changes nothing of what is stored. The first run copies everything, each
later one what came since; whole segments are copied once and never again. Each run makes a state that "collector
restore" can lay out. A run that is ended leaves those before it whole, and the next one goes on from there.

The directory then holds what the events hold, and the hashes of the API keys. The private signing keys are left out
unless they are asked for. What can be made again from the log is left out: the id index and the tree.

That it ran is noted in access.log in the data directory, as a reading, and for the console, which warns when the last
back-up is too old (--backup-max-age-ms of serve): run it as the collector's user.

Exit codes: 0 the back-up is there; with --check: everything in the directory is as it was written. 3 the log or the
back-up is damaged, or they are not of one log; 2 the directory holds something else, 5 another back-up is being written
to it, 6 there is no log, or no back-up to check, 1 nothing is signed yet, no room is left, or something could not be
read.`;

/** Less is copied before anybody wonders. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 200_000;

interface BackupOptions {
  readonly withSigningKeys?: true;
  readonly check?: true;
  readonly json?: true;
}

export function command(): Command {
  const backup = new Command('backup')
    .description('Copy all that is stored to a directory of back-ups, while a collector runs.')
    .argument('<directory>', 'where to; made when it is not there')
    .option('--with-signing-keys', 'copy the private signing keys too')
    .option(
      '--check',
      'write nothing: read everything in the directory, and say whether it is as it was written',
    )
    .option('--json', 'print what was done as one JSON object');
  return addConfigOptions(backup, 'backup')
    .addHelpText('after', EXAMPLES)
    .action(async (directory: string, options: BackupOptions, self: Command) => {
      const target = path.resolve(directory);
      const config = configOf(self, 'backup');
      if (options.check) process.exitCode = check(target, options);
      else await backUpTo(target, config, options);
    });
}

async function backUpTo(directory: string, config: Config, options: BackupOptions): Promise<void> {
  const { dataDir } = config;
  if (!exists(path.join(dataDir, 'ledger'))) {
    throw new CommandFailure(`${dataDir} holds no ledger`, EXIT.notFound);
  }
  assertApart(directory, dataDir, 'the data directory');
  const bar = barFor(options);
  try {
    const now = Date.now();
    const log = await backedUpLog({
      dataDir,
      signingKeys: options.withSigningKeys ? config.signingKeys : undefined,
      warn: (message) => process.stderr.write(`collector: warning: ${printable(message)}, and is left out\n`),
    });
    // Before anything is made there: it may be the wrong directory.
    assertMayHold(directory, log);
    const lock = lockDirectory(directory);
    let writer: BackupWriter | undefined;
    try {
      writer = new BackupWriter(directory, log);
      const givenOut = noteReading(dataDir, { command: 'backup', filter: { directory } });
      givenOut.events = log.events;
      const result = await backUp(log, writer, { now, tool: version(), onProgress: bar.show });
      givenOut.complete = true;
      bar.clear();
      noteDone(dataDir, result.manifest);
      const sameFileSystem = fs.statSync(directory).dev === fs.statSync(path.join(dataDir, 'ledger')).dev;
      const done: Done = { ...result, directory, written: writer.written, sameFileSystem };
      process.stdout.write(options.json ? asJson(done) : report(done));
    } finally {
      writer?.close();
      lock.release();
    }
  } catch (error) {
    throw backupFailure(error, directory, `the back-ups in ${directory} are whole, and the next run goes on`);
  } finally {
    bar.clear();
  }
}

/** For the console. What was copied is there all the same; a snapshot cannot be written, and has no console. */
function noteDone(dataDir: string, { time: at, events }: RunResult['manifest']): void {
  try {
    writeBackupNote(dataDir, { at, events });
  } catch (error) {
    if (systemCode(error) === 'EROFS') return;
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(
      `collector: warning: it could not be noted for the console that a back-up was made: ${printable(reason)}\n`,
    );
  }
}

/** A copy inside of what is copied, or beside it on a disk that fails with it, is none; the first is seen here. */
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

function barFor(options: BackupOptions): ProgressBar {
  const wanted = isWatched(options);
  return new ProgressBar({ wanted, unit: 'MiB', per: 1 << 20, from: BAR_FROM_MEBIBYTES, rate: true });
}

function isWatched({ json }: BackupOptions): boolean {
  return json !== true && process.stderr.isTTY;
}

interface Done extends RunResult, Pick<BackupWriter, 'written'> {
  readonly directory: string;
  /** Then it is lost with what it is a copy of. */
  readonly sameFileSystem: boolean;
}

/** For scripts; the names are a promise. */
function asJson(done: Done): string {
  const { directory, name, manifest, copied, there, written, accessLogBegunAnew, sameFileSystem } = done;
  const told = {
    directory,
    manifest: name,
    origin: manifest.origin,
    time: manifest.time,
    events: manifest.events,
    entries: manifest.entries,
    signed_entries: manifest.signed_entries,
    last_received_at: manifest.last_received_at,
    root: manifest.root,
    segments_copied: copied,
    segments_there: there,
    bytes_written: written.bytes,
    files_written: written.files,
    signing_keys: manifest.signing_keys.length,
    access_log_begun_anew: accessLogBegunAnew,
    same_file_system: sameFileSystem,
  };
  return `${printableJson(JSON.stringify(told, undefined, 2))}\n`;
}

function report(done: Done): string {
  const { directory, name, manifest, copied, there, written } = done;
  const {
    events,
    entries,
    signed_entries: signed,
    last_received_at: last,
    origin,
    signing_keys: keys,
  } = manifest;
  const until = last === null ? '' : `, the last of them received at ${last}`;
  const unsigned =
    entries === signed
      ? ''
      : ` The last ${counted(entries - signed, 'entry', 'entries')} are under no checkpoint yet.`;
  const lines = [
    `${directory} holds ${counted(events, 'event')} of ${printable(origin)}${until}.${unsigned}`,
    `${inBinary(written.bytes)} in ${counted(written.files, 'file')} written. ${segmentsText(copied, there)} This state ` +
      `is ${name}; "collector restore" lays it out.`,
    keys.length === 0
      ? 'The private signing keys are not in it: a restored log goes on only with them, so keep a copy elsewhere, or ' +
        'give --with-signing-keys.'
      : `It holds ${counted(keys.length, 'private signing key')}: whoever can read it can sign in the name of this log.`,
  ];
  if (done.sameFileSystem) {
    lines.push('It is on the same file system as the log, and is lost with it: keep one on another machine.');
  }
  if (done.accessLogBegunAnew) {
    lines.push(
      'access.log does not go on from the one that was backed up before, as after a restore, or because it was begun ' +
        'anew; what was backed up of that is kept beside the new one.',
    );
  }
  return lines.map((line) => `${wrappedFor(process.stdout, line)}\n`).join('');
}

/** The log is files of one size (--segment-bytes), of which all but the newest are full. */
function segmentsText(copied: number, there: number): string {
  if (copied + there === 0) return 'The log is one file so far, and was copied as far as it goes.';
  return (
    `Full files of the log: ${copied} copied now, ${there} in the back-up from before; of the newest, which still ` +
    'grows, what came since.'
  );
}

function inBinary(bytes: number): string {
  return bytes < 1 << 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

/** @returns the exit code. */
function check(directory: string, options: BackupOptions): number {
  const { backups, oldest, newest, bytes, faults } = inspect(directory, options);
  if (newest === undefined && faults.length === 0) {
    throw new CommandFailure(`${directory} holds no back-up that was finished`, EXIT.notFound);
  }
  const intact = faults.length === 0;
  if (options.json) {
    const told = {
      ...{ directory, intact, backups, bytes_read: bytes, origin: newest?.origin ?? null },
      ...{
        events: newest?.events ?? null,
        entries: newest?.entries ?? null,
        signed_entries: newest?.signed_entries ?? null,
      },
      ...{ oldest: oldest?.time ?? null, newest: newest?.time ?? null, faults },
    };
    process.stdout.write(`${printableJson(JSON.stringify(told, undefined, 2))}\n`);
  } else {
    const lines = intact
      ? [
          `INTACT: ${counted(backups, 'back-up')} from ${oldest?.time ?? ''} to ${newest?.time ?? ''}, ` +
            `the last of ${counted(newest?.events ?? 0, 'event')} of ${printable(newest?.origin ?? '')}. ` +
            `${inBinary(bytes)} read: every byte is as it was written, and the events are those that were signed.`,
        ]
      : [
          `NOT INTACT: ${counted(faults.length, 'finding')}`,
          ...faults.map(printable),
          'What to do: docs/OPERATIONS.md, "A damaged back-up".',
        ];
    process.stdout.write(lines.map((line) => `${wrappedFor(process.stdout, line)}\n`).join(''));
  }
  return intact ? EXIT.ok : EXIT.damaged;
}

/** First each byte against its hash, and when all are right, the events against what was signed. */
function inspect(directory: string, options: BackupOptions): BackupCheck {
  const bar = barFor(options);
  const events = new ProgressBar({
    wanted: isWatched(options),
    unit: 'events',
    per: 1,
    from: BAR_FROM_EVENTS,
  });
  try {
    if (!exists(directory)) throw new CommandFailure(`there is no directory ${directory}`, EXIT.notFound);
    const files = new BackupFiles(directory);
    const checked = checkBackup(files, bar.show);
    bar.clear();
    const { newest } = checked;
    if (newest === undefined || checked.faults.length > 0) return checked;
    const fault = contradictionIn(files, newest, (done) => events.show(done, newest.entries));
    return fault === undefined ? checked : { ...checked, faults: [fault] };
  } catch (error) {
    throw backupFailure(error, directory, 'nothing was written');
  } finally {
    bar.clear();
    events.clear();
  }
}
