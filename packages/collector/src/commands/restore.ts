/** `collector restore`: copies a back-up to a new data directory and verifies it. */
import path from 'node:path';
import { exists, nodeFiles } from '../files.js';
import { eventsOf, takenBy } from '../privacy/actions.js';
import { type KeyPlaces } from '../privacy/key-directories.js';
import { openKeys } from '../privacy/open-keys.js';
import { KekFault, kekFault } from '../privacy/key-encryption-key.js';
import { KeysUnfit, VaultAway } from '../privacy/key-vault.js';
import type { TakenKeys } from '../privacy/payload-keys.js';
import { SequenceSet } from '../privacy/sequence-set.js';
import { counted } from '../quantity.js';
import { assertNoLinks, type BackupState, copyAll, noteKnown, readState } from '../replica/replica.js';
import { Restoration } from '../replica/restoration.js';
import { StoreDamaged } from '../store/contract/events.js';
import { entryRange } from '../store/findings.js';
import { exposureOf } from '../store/directory-lock.js';
import { noteKeyPlaces } from '../store/key-places.js';
import { keyDatabasePath } from '../store/open-keys.js';
import { openStore } from '../store/open-to-read.js';
import { isNoRoom, systemCode } from '../system-code.js';
import { SigningKeyFault } from '../tree/key-files.js';
import { beginAccess } from './access-log.js';
import { defineCommand } from './define.js';
import { CommandFailure, EXIT, type ExitCode, usage } from './exit-codes.js';
import { assertApart, holdsLog, real } from './regular-files.js';
import { backupSource, noteOver } from './restore-source.js';
import { printable, printableJson, ProgressBar, wrappedFor } from './terminal.js';
import { trustedFrom } from './given-keys.js';
import { logKey } from './verify/trusted-keys.js';
import { verifyLog, type Verification } from './verify/verification.js';
import { verificationFields, verificationReport } from './verify/verification-report.js';
import { Unusable } from '../unusable.js';

const EXAMPLES = `  $ collector restore /mnt/backup/collector --data-dir ./restored \\
      --against /mnt/audit/icu.checkpoints --key log.vkey

Copies the back-up to a new or empty directory and verifies the copy as "collector verify" does; only then is
it moved into place. Give the checkpoints and the key that you kept elsewhere: the back-up's own records
reveal damage but not forgery, and do not show which events came later.

A back-up whose end was cut off, for example by a full disk, is restored up to its last whole event if
--against is given. No collector starts on a directory that lacks events which a known checkpoint covers,
because it would sign a second history; see docs/guide/back-up-and-restore.md, "When events are lost".

Exit codes: 0 restored and intact, 7 restored, but a known checkpoint covers events that are missing at its
end, 3 the back-up is damaged or is not the log that was signed, and nothing was restored; 2 the directory is
not empty, or is inside that of another log, or the command line is wrong, 6 there is no such back-up, 1 it
could not be written.`;

/** Sizes from which a progress bar is shown. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 200_000;

interface RestoreOptions {
  readonly dataDir: string;
  readonly against?: readonly string[];
  readonly key?: readonly string[];
  readonly encryptionKeys?: string;
  readonly kek?: string;
  readonly json?: true;
}

export const command = defineCommand<RestoreOptions>({
  name: 'restore',
  description: 'Copy a back-up to a new data directory and verify that it is the log that was signed.',
  arguments: { '<directory>': 'the back-up' },
  options: {
    '--data-dir <directory>': { help: '(required) target; new or empty', isRequired: true },
    '--against <path>': {
      help: 'checkpoints that were kept elsewhere; repeatable',
      isRepeatable: true,
    },
    '--key <vkey>': {
      help: 'verifier key of the log, a file with keys, or a file or directory of rotation notes; repeatable',
      isRepeatable: true,
    },
    '--encryption-keys <directory>':
      'directories of the payload keys, comma-separated: keys of events erased since are removed from them',
    '--kek <place>': 'what wraps these keys, if not a file beside them (see collector serve)',
    '--json': 'print the result as one JSON object',
  },
  examples: EXAMPLES,
  run: ({ options }, directory) => restore(path.resolve(directory), path.resolve(options.dataDir), options),
});

async function restore(directory: string, to: string, options: RestoreOptions): Promise<ExitCode> {
  // Check all arguments before anything is written.
  const { keys, rotations } = trustedFrom(options.key ?? [], (text) => logKey(text).vkey);
  const { against = [] } = options;
  const keyPlaces = keyPlacesFrom(options);
  if (keyPlaces !== undefined && keys.length === 0)
    throw usage(
      '--encryption-keys: requires --key, because the actions in a forged back-up would destroy keys',
    );
  for (const given of [...against, ...(keyPlaces?.directories ?? [])]) {
    if (!exists(given)) throw new CommandFailure(`there is no file ${given}`, EXIT.notFound);
  }
  try {
    const state = completed(directory);
    assertNoLinks(directory);
    assertApart(to, directory, 'the back-up');
    assertInNoLog(to);
    const restoration = new Restoration(to);
    const given = { against, keys, rotations };
    const job = { directory, to, state, given, keyPlaces, json: options.json === true };
    return await copyAndProve(restoration, job);
  } catch (error) {
    throw restoreFailure(error, to);
  }
}

interface Job {
  readonly directory: string;
  readonly to: string;
  readonly state: BackupState;
  readonly given: {
    readonly against: readonly string[];
    readonly keys: readonly string[];
    readonly rotations: readonly string[];
  };
  readonly keyPlaces: KeyPlaces | undefined;
  readonly json: boolean;
}

function keyPlacesFrom({ encryptionKeys, kek = '' }: RestoreOptions): KeyPlaces | undefined {
  if (encryptionKeys === undefined) {
    if (kek !== '') throw usage('--kek: requires --encryption-keys');
    return undefined;
  }
  const fault = kek === '' ? undefined : kekFault(kek);
  if (fault !== undefined) throw usage(`--kek: ${fault}`);
  const given = encryptionKeys.split(',').filter((directory) => directory !== '');
  if (given.length === 0) throw usage('--encryption-keys: names no directory');
  return { directories: given.map((each) => path.resolve(each)), kek };
}

/** The effect on the given keys. */
interface Narrowed {
  /** Keys that notes beside them record as destroyed by actions that the copy does not have. */
  readonly takenSince: readonly TakenKeys[];
  /** Number of events in the copy that these keys encrypted. */
  readonly events: number;
}

/**
 * Destroys, in the given key directories, the keys of events that a signed action of this log or a note
 * beside the keys has erased, and records the directories in the copy.
 * @throws CommandFailure if a directory cannot be written.
 */
async function narrow(
  copy: string,
  keyPlaces: KeyPlaces,
  { entries, unsigned }: Verification,
): Promise<Narrowed> {
  const log = openStore(copy).events;
  const signed = entries - unsigned;
  const own = (log.actions?.().logged ?? []).flatMap(({ said, sequence }) =>
    said.does === 'erase' && sequence <= signed ? said.keys : [],
  );
  try {
    const writer = await openKeys({
      ...{ places: keyPlaces, ledgerId: log.ledgerId, isNeeded: true },
      onTrouble: (what, error) => {
        throw new CommandFailure(what, EXIT.failure, { cause: error });
      },
    });
    const noted = takenBy(writer.stored.noted());
    const [directory] = await writer.destroy([...own, ...noted]);
    if (directory !== undefined)
      throw new CommandFailure(
        `the keys in ${directory} cannot be written: nothing was restored`,
        EXIT.failure,
      );
    await noteKeyPlaces(copy, keyPlaces);
    const there = SequenceSet.ofStretches([{ first: 1, end: entries + 1 }]);
    const since = eventsOf(noted).without(eventsOf(own)).within(there);
    return { takenSince: noted, events: since.size };
  } catch (error) {
    if (error instanceof KeysUnfit || error instanceof KekFault)
      throw new CommandFailure(printable(error.message), EXIT.usage, { cause: error });
    if (error instanceof VaultAway)
      throw new CommandFailure(`${printable(error.message)}: nothing was restored`, EXIT.failure, {
        cause: error,
      });
    throw error;
  } finally {
    await log.close();
  }
}

async function copyAndProve(restoration: Restoration, job: Job): Promise<ExitCode> {
  let taken = false;
  try {
    const cut = await copyBackup(restoration.copy, job);
    if (cut === 'damaged' || cut === 'cut') return await refuse(job, cut === 'cut');
    let verification = await prove(restoration.copy, job, []);
    let narrowed: Narrowed | undefined;
    if (codeOf(verification, cut) !== EXIT.damaged && job.keyPlaces !== undefined) {
      // Keys are destroyed only after verification: a forged back-up must not destroy any.
      narrowed = await narrow(restoration.copy, job.keyPlaces, verification);
      // The copy is verified again, since the payloads can now be opened.
      verification = await prove(restoration.copy, job, narrowed.takenSince);
    }
    const lost = lostOf(verification, cut);
    const code = codeOf(verification, cut);
    if (code !== EXIT.damaged) {
      if (lost.size !== undefined)
        await noteKnown(restoration.copy, noteOver(lost.size, job.directory, job.given.against));
      restoration.take();
      taken = true;
    }
    const exposure = taken ? exposureOf(job.to) : undefined;
    if (exposure !== undefined) process.stderr.write(`collector: warning: ${printable(exposure)}\n`);
    const print = job.json ? asJson : report;
    process.stdout.write(
      print(job, { verification, narrowed, restored: taken, lost: lost.size, isCut: cut !== undefined }),
    );
    return code;
  } finally {
    if (!taken) restoration.discard();
  }
}

/**
 * Copies the back-up.
 * @returns the number of entries its newest checkpoint covers, if it holds fewer; `cut` if that requires
 *   `--against`; `damaged` if it cannot be copied.
 */
async function copyBackup(copy: string, job: Job): Promise<number | 'cut' | 'damaged' | undefined> {
  const wanted = !job.json && process.stderr.isTTY;
  const bar = new ProgressBar({ wanted, unit: 'MiB', per: 1 << 20, from: BAR_FROM_MEBIBYTES, rate: true });
  try {
    const found = await backupSource(job.directory, job.given.against);
    if (found === undefined) return 'cut';
    const { source, cut } = found;
    await copyAll(copy, source, { at: job.state.at ?? '', onProgress: bar.show });
    return cut;
  } catch (error) {
    const isDamage =
      error instanceof StoreDamaged ||
      error instanceof SigningKeyFault ||
      (error instanceof CommandFailure && error.exitCode === EXIT.damaged);
    if (isDamage) return 'damaged';
    throw error;
  } finally {
    bar.clear();
  }
}

/** Reports the damage in the back-up. */
async function refuse(job: Job, isCut: boolean): Promise<ExitCode> {
  const { directory, given } = job;
  const onProgress = () => undefined;
  const verification = await verifyLog({ dataDir: directory, files: nodeFiles, ...given, onProgress });
  if (verification.findings.intact) throw new Error(`${directory} is intact, but could not be copied`);
  const print = job.json ? asJson : report;
  const done = { verification, narrowed: undefined, restored: false, lost: undefined, isCut };
  process.stdout.write(print(job, done));
  return EXIT.damaged;
}

/** @param cut the number of entries of a back-up that holds fewer. */
function codeOf(verification: Verification, cut: number | undefined): ExitCode {
  const { size, only } = lostOf(verification, cut);
  if (size !== undefined) return only ? EXIT.partly : EXIT.damaged;
  return verification.findings.intact ? EXIT.ok : EXIT.damaged;
}

/**
 * Verifies the copy. A restore gives access to its contents, so it is logged in the access log of the copy.
 */
async function prove(
  copy: string,
  { directory, state, given, json }: Job,
  takenSince: readonly TakenKeys[],
): Promise<Verification> {
  const wanted = !json && process.stderr.isTTY;
  const bar = new ProgressBar({ wanted, unit: 'entries', per: 1, from: BAR_FROM_EVENTS, rate: true });
  const filter = { directory, erasures_known_until: state.at ?? undefined };
  const end = beginAccess(copy, { command: 'restore', filter });
  let verification: Verification | undefined;
  try {
    const own = { ownAccesses: 1, onProgress: bar.show, takenSince };
    verification = await verifyLog({ dataDir: copy, files: nodeFiles, ...given, ...own });
    return verification;
  } finally {
    bar.clear();
    end({ events: verification?.events ?? 0, complete: verification !== undefined });
  }
}

/** @throws CommandFailure if there is no back-up. */
function completed(directory: string): BackupState {
  if (!exists(directory)) throw new CommandFailure(`there is no directory ${directory}`, EXIT.notFound);
  const state = readState(directory);
  if (state === undefined || state.at === null) {
    throw new CommandFailure(`${directory} holds no completed back-up`, EXIT.notFound);
  }
  return state;
}

function restoreFailure(error: unknown, to: string): unknown {
  const failure = (message: string, code: ExitCode) => new CommandFailure(message, code, { cause: error });
  if (isNoRoom(error)) {
    const code = systemCode(error) ?? 'full';
    return failure(`the disk is full (${code}); nothing was restored to ${to}`, EXIT.failure);
  }
  if (error instanceof Unusable) {
    return failure(printable(error.message), EXIT.usage);
  }
  return error;
}

/** Refuses a target inside a data directory or a back-up, where files of two logs would be mixed. */
function assertInNoLog(to: string): void {
  for (let inner = real(to), outer = path.dirname(inner); outer !== inner; outer = path.dirname(inner)) {
    if (holdsLog(outer) || exists(keyDatabasePath(outer)))
      throw usage(`${to} is inside ${outer}, which holds a log or its keys: give a directory outside of it`);
    inner = outer;
  }
}

/** Events that checkpoints show to be missing at the end of the restored log. */
interface Lost {
  /** The number of entries that the largest checkpoint covers; undefined if the log has them all. */
  readonly size: number | undefined;
  /** Whether the log has no other fault. */
  readonly only: boolean;
}

function lostOf({ checkpoints, entries, findings }: Verification, cut: number | undefined): Lost {
  const sizes = checkpoints.roots.filter(({ outside }) => outside).map(({ size }) => size);
  const size = Math.max(...sizes, cut ?? 0);
  if (size <= entries) return { size: undefined, only: false };
  const faults = findings.listed.filter(({ kind }) => kind !== 'note');
  // The checkpoint that a cut back-up lacks may cover entries that were signed long before the newest one.
  const isLoss = ({ kind, sequence = 0 }: (typeof faults)[number]) =>
    (kind === 'missing' && sequence > entries) || (kind === 'checkpoint_missing' && cut !== undefined);
  return { size, only: faults.every(isLoss) && findings.unlisted === 0 };
}

interface Done {
  readonly verification: Verification;
  readonly narrowed: Narrowed | undefined;
  readonly restored: boolean;
  /** The size in {@link Lost}. */
  readonly lost: number | undefined;
  /** Whether the back-up ends before its own newest checkpoint. */
  readonly isCut: boolean;
}

/** The output for programs, which rely on the names. */
function asJson({ to, state }: Job, { verification, narrowed, restored, lost }: Done): string {
  const { entries } = verification;
  const fields = {
    directory: to,
    restored,
    time: state.at,
    events: verification.events,
    entries: verification.entries,
    newest_checkpoint_given: lost ?? null,
    missing: lost === undefined ? null : { first: entries + 1, last: lost, entries: lost - entries },
    erased_since: narrowed?.events ?? null,
    verified: verificationFields(verification),
  };
  return `${printableJson(JSON.stringify(fields, undefined, 2))}\n`;
}

function report(job: Job, { verification, narrowed, restored, lost, isCut }: Done): string {
  const paragraph = (text: string) => `${wrappedFor(process.stdout, text)}\n`;
  const proof = verificationReport(verification);
  if (!restored) {
    const option = isCut
      ? ' Its end was cut off. With --against FILE (checkpoints that were kept elsewhere) it is restored ' +
        'up to its last whole event, if nothing else is damaged.'
      : '';
    const see = `Nothing was restored: docs/guide/back-up-and-restore.md, "A damaged back-up".${option}`;
    return `${proof}\n${paragraph(see)}`;
  }
  const { to, state } = job;
  const paragraphs = [
    `${to} holds ${counted(verification.events, 'event')}. The last completed round of the back-up began ` +
      `at ${state.at ?? ''}; events acknowledged later may be missing.`,
  ];
  if (!exists(path.join(to, 'signing-keys'))) {
    paragraphs.push(
      'The private signing keys were not backed up: restore them before you start a collector, or name ' +
        'them with --signing-keys.',
    );
  }
  if (verification.unopened > 0) {
    paragraphs.push(
      'Its payloads are encrypted, and no back-up has their keys: start the collector with a mirror of the ' +
        'keys (--encryption-keys; docs/guide/encryption.md).',
    );
  }
  if (narrowed !== undefined && narrowed.events > 0)
    paragraphs.push(
      `${counted(narrowed.events, 'event')} ${narrowed.events === 1 ? 'was' : 'were'} erased after this ` +
        'back-up, and no given key can read them. The only evidence is an unsigned note beside the keys: ' +
        'compare it with the certificates. "collector verify" reports these events as unexplained until ' +
        'the first start has recorded their erasure in the log.',
    );
  if (narrowed !== undefined || verification.unopened > 0) {
    paragraphs.push(
      `WARNING: this back-up still contains any events that were erased after ${state.at ?? ''}. Key ` +
        'directories that were in use until the end know these erasures and cannot open the events. An ' +
        'older copy of the keys can: start the collector with --no-listen and erase the events again with ' +
        '"collector erase plan --certificate FILE..." before anyone reads them.',
    );
  }
  if (narrowed !== undefined || verification.unopened > 0)
    paragraphs.push(
      `Holds and the retention policy are as of ${state.at ?? ''}: repeat each later hold and policy ` +
        'before anything is erased here.',
    );
  const warning =
    lost === undefined
      ? 'Before you start a collector on it, read docs/guide/back-up-and-restore.md, "Restore".'
      : lossText(verification, lost, isCut);
  return `${paragraphs.map(paragraph).join('')}\n${proof}\n${paragraph(warning)}`;
}

function lossText({ entries, checkpoints }: Verification, lost: number, isCut: boolean): string {
  const missing = entryRange(entries + 1, lost - entries);
  const proved = Math.max(0, ...checkpoints.roots.map(({ size }) => size).filter((size) => size <= entries));
  const unproved = entries - proved;
  const are = (count: number) => (count === 1 ? 'is' : 'are');
  return [
    `WARNING: ${missing} (${counted(lost - entries, 'entry', 'entries')}) ${are(lost - entries)} missing: ` +
      `${isCut ? 'the end of the back-up is missing. A checkpoint' : 'a checkpoint'} over ${lost} entries ` +
      `is known, but this directory has ${entries}.`,
    ...(unproved === 0 ? [] : [`No checkpoint found here proves ${entryRange(proved + 1, unproved)}.`]),
    'No collector starts on this directory, because it would sign different entries in their place. ' +
      'See docs/guide/back-up-and-restore.md, "When events are lost".',
  ].join(' ');
}
