/** `collector restore`: lays a back-up out as a data directory, and proves that it is the log that was signed. */
import path from 'node:path';
import { Command } from 'commander';
import { BackupFiles } from '../backup/backup-files.js';
import type { Manifest, ManifestName } from '../backup/manifest.js';
import { assertEmpty, layOut } from '../backup/restoration.js';
import { counted } from '../counted.js';
import { exists, nodeFiles } from '../files.js';
import { exposureOf, keyDatabasePath } from '../store/open.js';
import { beginReading, type Reading } from './access-log.js';
import { assertApart, real } from './backup.js';
import { backupFailure } from './backup-faults.js';
import { instantFrom } from './event-arguments.js';
import { CommandFailure, EXIT, type ExitCode } from './exit-codes.js';
import { collect, keysFrom, rotationsIn } from './given-keys.js';
import { usage } from './key-arguments.js';
import { printable, printableJson } from './printable.js';
import { ProgressBar } from './progress-bar.js';
import { logKey } from './trusted-keys.js';
import { verifyLog, type Verification } from './verification.js';
import { holdsLog, verificationFields, verificationReport } from './verify.js';
import { wrappedFor } from './wrapped.js';

const EXAMPLES = `
Examples:
  $ collector restore /mnt/backup/collector --to /var/lib/collector --against /mnt/audit/icu.checkpoints --key log.vkey
  $ collector restore /mnt/backup/collector --to /tmp/look --at 2026-11-21T12:00:00Z

Lays out the newest back-up, or with --at the last one that was begun by then, or the one with that manifest. The
directory has to be new or empty. Every byte is held against its hash on the way; then the log is verified as "collector
verify" does it. Give the checkpoints and the key that were kept elsewhere: what a back-up says of itself finds damage,
and no forger, and it does not know which events came after it.

A collector that is started on an older state of a log that others hold newer checkpoints of begins a second history.
docs/guide/back-up-and-restore.md, "Restore", says what to do before.

Exit codes: 0 restored and intact, 7 restored, and all that was found is that events are missing at the end of which a
checkpoint given speaks, 3 the back-up is damaged and nothing was restored, or the restored log is not the one that was
signed; 2 the directory is not empty, or lies within another log's, or the command line is wrong, 6 there is no such back-up, 1 it could not be
written.`;

/** Less is copied before anybody wonders, and fewer events verified. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 200_000;

interface RestoreOptions {
  readonly to: string;
  readonly at?: string;
  readonly against?: readonly string[];
  readonly key?: readonly string[];
  readonly rotations?: readonly string[];
  readonly json?: true;
}

export function command(): Command {
  return new Command('restore')
    .description('Lay a back-up out as a data directory, and prove that it is the log that was signed.')
    .argument('<directory>', 'where the back-ups are')
    .requiredOption('--to <directory>', 'where to; new or empty')
    .option(
      '--at <time>',
      'the last back-up begun by this instant, or the name of a manifest (default: the newest)',
    )
    .option('--against <path>', 'checkpoints that were kept elsewhere; may be given again', collect)
    .option(
      '--key <vkey>',
      'a verifier key of the log that you trust, or a file with one; may be given again',
      collect,
    )
    .option('--rotations <path>', 'rotation notes of the log; may be given again', collect)
    .option('--json', 'print what was done as one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (directory: string, options: RestoreOptions) => {
      process.exitCode = await restore(path.resolve(directory), path.resolve(options.to), options);
    });
}

/** What is laid out, and what is newer. */
interface Chosen {
  readonly manifest: Manifest;
  readonly name: string;
  readonly newest: Manifest;
  /** How many back-ups are newer. */
  readonly newer: number;
}

/** @returns the exit code. */
async function restore(directory: string, to: string, options: RestoreOptions): Promise<ExitCode> {
  const { against = [], json = false } = options;
  // All that was given is looked at before anything is written.
  const keys = (options.key ?? []).flatMap((key) => keysFrom('--key', key, (text) => logKey(text).vkey));
  const rotations = (options.rotations ?? []).flatMap(rotationsIn);
  for (const given of against) {
    if (!exists(given)) throw new CommandFailure(`there is no file ${given}`, EXIT.notFound);
  }
  const wanted = !json && process.stderr.isTTY;
  const bytes = new ProgressBar({ wanted, unit: 'MiB', per: 1 << 20, from: BAR_FROM_MEBIBYTES, rate: true });
  let chosen: Chosen;
  let end: ReturnType<typeof beginReading> | undefined;
  try {
    if (!exists(directory)) throw new CommandFailure(`there is no directory ${directory}`, EXIT.notFound);
    const files = new BackupFiles(directory);
    assertApart(to, directory, 'the back-ups');
    assertEmpty(to);
    assertInNoLog(to);
    chosen = choose(files, options.at);
    // Whoever restores it gets at all that it holds.
    const reading: Reading = { command: 'restore', filter: { directory, manifest: chosen.name } };
    layOut(files, chosen.manifest, to, bytes.show, () => (end = beginReading(to, reading)));
  } catch (error) {
    throw backupFailure(error, directory, `nothing was restored to ${to}`);
  } finally {
    bytes.clear();
  }
  const exposure = exposureOf(to);
  if (exposure !== undefined) process.stderr.write(`collector: warning: ${printable(exposure)}\n`);
  const events = new ProgressBar({ wanted, unit: 'events', per: 1, from: BAR_FROM_EVENTS, rate: true });
  let verification: Verification | undefined;
  try {
    const ownReadings = 1;
    const onProgress = events.show;
    verification = await verifyLog({
      dataDir: to,
      files: nodeFiles,
      against,
      keys,
      rotations,
      ownReadings,
      onProgress,
    });
  } finally {
    events.clear();
    end?.({ events: verification?.events ?? 0, complete: verification !== undefined });
  }
  const later = laterThan(verification);
  const code = verification.findings.intact ? EXIT.ok : later.only ? EXIT.partly : EXIT.damaged;
  process.stdout.write(
    json ? asJson(to, chosen, verification, later.size) : report(to, chosen, verification, later),
  );
  return code;
}

/** Within a data directory, or a directory of back-ups, files of one log would lie among those of another. */
function assertInNoLog(to: string): void {
  for (let inner = real(to), outer = path.dirname(inner); outer !== inner; outer = path.dirname(inner)) {
    if (holdsLog(outer) || exists(keyDatabasePath(outer)))
      throw usage(
        `${to} lies within ${outer}, which holds a log or its keys: give a directory outside of it`,
      );
    inner = outer;
  }
}

function choose(files: BackupFiles, at: string | undefined): Chosen {
  const names = files.manifestNames();
  const last = names.at(-1);
  const found = at === undefined ? last : named(names, at);
  if (found === undefined || last === undefined) {
    const which =
      at === undefined ? 'no back-up that was finished' : `no back-up of ${printable(at)} or before`;
    throw new CommandFailure(`${files.root} holds ${which}`, EXIT.notFound);
  }
  const manifest = files.manifest(found);
  const newest = found === last ? manifest : files.manifest(last);
  return { manifest, name: found.name, newest, newer: names.length - 1 - names.indexOf(found) };
}

function named(names: readonly ManifestName[], at: string): ManifestName | undefined {
  const name = names.find((each) => each.name === path.basename(at));
  if (name !== undefined || at.endsWith('.json')) return name;
  const instant = instantFrom('--at', at);
  return names.findLast(({ time }) => time <= instant);
}

/** What the checkpoints that were given say of events behind the end of this log. */
interface Later {
  /** The largest of them; undefined when none goes further than the log. */
  readonly size: number | undefined;
  /** Whether that is all that there is to say against the log. */
  readonly only: boolean;
}

function laterThan({ checkpoints, entries, findings }: Verification): Later {
  const sizes = checkpoints.roots.filter(({ outside }) => outside).map(({ size }) => size);
  const size = Math.max(...sizes, 0);
  if (size <= entries) return { size: undefined, only: false };
  const faults = findings.listed.filter(({ kind }) => kind !== 'note');
  const only = faults.every(({ kind, sequence = 0 }) => kind === 'missing' && sequence > entries);
  return { size, only: only && findings.unlisted === 0 };
}

/** For scripts; the names are a promise. */
function asJson(
  to: string,
  { manifest, name, newer }: Chosen,
  verification: Verification,
  later?: number,
): string {
  const told = {
    directory: to,
    manifest: name,
    time: manifest.time,
    newer_backups: newer,
    events: manifest.events,
    entries: manifest.entries,
    signed_entries: manifest.signed_entries,
    last_received_at: manifest.last_received_at,
    signing_keys: manifest.signing_keys.length,
    newest_checkpoint_given: later ?? null,
    verified: verificationFields(verification),
  };
  return `${printableJson(JSON.stringify(told, undefined, 2))}\n`;
}

function report(to: string, chosen: Chosen, verification: Verification, later: Later): string {
  const { manifest, newest, newer, name } = chosen;
  const { events, entries, last_received_at: last } = manifest;
  const until = last === null ? '' : `, the last of them received at ${last}`;
  const paragraphs = [
    `${to} holds the ${counted(events, 'event')} of the back-up of ${manifest.time} (${name})${until}. What came later ` +
      'is not there.',
  ];
  if (newer > 0) {
    paragraphs.push(
      `${counted(newer, 'newer back-up')} in the directory, the last of ${newest.time}. The keys are those of then: an ` +
        'API key that was revoked since is valid again, and a rotation of the signing key since is not there.',
    );
  }
  if (manifest.signing_keys.length === 0) {
    paragraphs.push(
      'The private signing keys were not backed up: bring them back before a collector is started, or name them by ' +
        '--signing-keys or --signing-command.',
    );
  }
  const warning =
    later.size === undefined
      ? 'Before a collector is started on it: docs/guide/back-up-and-restore.md, "Restore".'
      : `WARNING: checkpoints over ${later.size} entries have left the old log, and this one has ${entries}. So ` +
        `${later.size - entries} that were there are missing, and a collector started here would sign others in ` +
        'their place. docs/guide/back-up-and-restore.md, "When events are lost", says what to do instead.';
  const told = (text: string) => `${wrappedFor(process.stdout, text)}\n`;
  return `${paragraphs.map(told).join('')}\n${verificationReport(verification)}\n${told(warning)}`;
}
