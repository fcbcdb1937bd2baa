/**
 * The complete check of a log for `collector verify`: reads every byte, changes nothing, and needs no lock.
 *
 * The order of reading avoids false findings while a collector runs. A checkpoint covers only durable entries
 * whose hashes are staged. Therefore all checkpoints are read first, then the keys (a rotation is recorded
 * before its key signs), then the log and the tree, which by then contain at least what these checkpoints
 * cover. Entries after the largest checkpoint are checked without one.
 */
import { readKeys } from '../../privacy/key-directories.js';
import { KekFault } from '../../privacy/key-encryption-key.js';
import { KeysUnfit, VaultAway } from '../../privacy/key-vault.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import type { StoredKeys } from '../../privacy/stored-keys.js';
import { erasedUnderHolds, heldFindings, type HeldThings } from '../../store/lifecycle-findings.js';
import { finding, type FindingList, type VerifyFinding } from '../../store/findings.js';
import type { AuditedLog, AuditOptions, Waiting } from '../../store/log-audit.js';
import { copySharedLog } from '../../replica/shared-log.js';
import { LogAudit, openProof, OtherFormat } from '../../store/open-to-audit.js';
import type { OpenSharedStore } from '../../store/contract/opened.js';
import { readKeyPlaces } from '../../store/key-places.js';
import { messageOf } from '../../system-code.js';
import { readKnownCheckpoint, readMirrorNote, readSinkStates } from '../../tree/state-files.js';
import { rotationMissing, unknownSigner } from '../../tree/note-signing.js';
import { readHistory } from '../../tree/key-files.js';
import type { ClosedFiles } from '../access-lines.js';
import { AccessLogCheck, type AccessLogState } from './access-log-check.js';
import { SignedCheckpoints } from './signed-checkpoints.js';
import { notesElsewhere, notesOfDirectory, type ReadNote, readNote } from './signed-notes.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { metBy, recordIn, recordText } from '../lifecycle/holds.js';
import { printable } from '../terminal.js';
import { checkRegular, PROOF_DIRECTORIES } from '../regular-files.js';
import { keysOf, type LogKeys } from './trusted-keys.js';

/** Maximum number of faults, and of notes, that are listed. */
const MOST_LISTED = 100;
/** A collector signs about once per second; a signer should never be unavailable for this long. */
const LONGEST_WAIT_MS = 3_600_000;
/** The latest time that a Date can represent. */
const LAST_INSTANT_MS = 8.64e15;
const LATEST = 'checkpoints/latest';

/** The findings of `collector verify`. */
export class VerifyFindings implements FindingList {
  readonly #faults: VerifyFinding[] = [];
  readonly #notes: VerifyFinding[] = [];
  /** Faults that are counted but not listed. */
  unlisted = 0;
  #confirmed = false;

  add(...found: readonly VerifyFinding[]): void {
    for (const each of found) {
      const list = each.kind === 'note' ? this.#notes : this.#faults;
      if (list.length < MOST_LISTED) list.push({ ...each, message: printable(each.message) });
      else if (each.kind !== 'note') this.unlisted++;
    }
  }

  confirm(): void {
    this.#confirmed = true;
  }

  get intact(): boolean {
    return this.#confirmed && this.faults === 0;
  }

  get faults(): number {
    return this.#faults.length + this.unlisted;
  }

  /** Ordered by event, those without an event first; notes last. */
  get listed(): readonly VerifyFinding[] {
    const bySequence = (a: VerifyFinding, b: VerifyFinding) => (a.sequence ?? 0) - (b.sequence ?? 0);
    return [...this.#faults.toSorted(bySequence), ...this.#notes.toSorted(bySequence)];
  }
}

export interface VerificationOptions extends Omit<AuditOptions, 'shared'> {
  /** The log, if it is in a database; the directory then holds its public files and is temporary. */
  readonly shared?: OpenSharedStore | undefined;
  /** Files and directories with checkpoints that were kept elsewhere. */
  readonly against: readonly string[];
  /** Verifier keys; if empty, those of the data directory. */
  readonly keys: readonly string[];
  /** Rotation notes, in addition to those of the data directory. */
  readonly rotations?: readonly string[];
  /** Number of accesses logged by the calling command. */
  readonly ownAccesses?: number;
  readonly closedFiles?: ClosedFiles;
}

export interface Verification extends AuditedLog {
  readonly findings: VerifyFindings;
  readonly keys: LogKeys;
  readonly checkpoints: SignedCheckpoints;
  /** Undefined if no access was ever logged. */
  readonly access: AccessLogState | undefined;
}

/**
 * @throws CommandFailure if a given file is missing or the log is of another format; the system's error for a
 *   file.
 */
export async function verifyLog(options: VerificationOptions): Promise<Verification> {
  const { dataDir } = options;
  const findings = new VerifyFindings();
  // The audit examines each segment itself and does not read the index.
  checkRegular(dataDir, PROOF_DIRECTORIES);
  // A checkpoint becomes the newest one before it is published.
  const largest = givenOut(dataDir, findings);
  const { shared } = options;
  const { tree, accessLog: accesses } = shared ?? openProof(dataDir);
  try {
    const passedOver = new Map<string, string>();
    const newest = await tree.head();
    const notes = notesOfDirectory(dataDir, newest);
    const elsewhere = options.against.map((given) =>
      notesElsewhere(given, (file, why) => passedOver.set(file, why)),
    );
    const keys = keysOf(dataDir, newest, options, findings);
    findings.add(...rotationFindings(dataDir, newest));
    const checkpoints = new SignedCheckpoints(keys, findings);
    checkpoints.take(notes);
    for (const [i, given] of elsewhere.entries()) checkpoints.take(given, options.against[i]);
    checkpoints.finish();
    for (const [file, why] of passedOver)
      findings.add(finding('checkpoint_passed_over', { file }, file, why, 0));
    const { ownAccesses, closedFiles } = options;
    const isMirror = readMirrorNote(dataDir) !== undefined;
    const accessLog = new AccessLogCheck(accesses, { ownAccesses, isMirror, closedFiles });
    const copy = shared && (await copySharedLog(shared, dataDir, options.onProgress));
    const audit = new LogAudit({ ...options, shared: copy }, tree, checkpoints, accessLog);
    const audited = await audit.report(findings);
    const log = { ...audited, ...(await copy?.evidence.tell(findings)) };
    const { entries, unsigned, waiting } = log;
    for await (const unlawful of unlawfulFindings(options, log.erasures)) findings.add(unlawful);
    if (!checkpoints.hasNewest) findings.add(noNewest(entries));
    else if (checkpoints.newest !== undefined) {
      const { size } = checkpoints.newest;
      if (unsigned > 0 && waiting !== undefined) findings.add(waitingFinding(unsigned, waiting));
      if (largest.size > size)
        findings.add(finding('given_out', { file: LATEST }, size, largest.size, largest.file));
    }
    const access = await accessLog.finish();
    findings.add(...(access?.findings ?? []));
    return { ...log, findings, keys, checkpoints, access };
  } catch (error) {
    if (!(error instanceof OtherFormat)) throw error;
    throw new CommandFailure(`no verdict: ${error.message}`, EXIT.failure, { cause: error });
  } finally {
    if (shared === undefined) await tree.close();
  }
}

/**
 * The holds, with the events that they protected according to their records. A hold whose record cannot be
 * opened is left out, so that it counts as unknown, unless that is expected: the hold was released and its
 * key destroyed, or the log's keys are not available here.
 */
async function holdsThatStood(
  { dataDir, shared }: Pick<VerificationOptions, 'dataDir' | 'shared'>,
  actions: AuditedLog['erasures']['actions'],
): Promise<Map<string, HeldThings>> {
  const keys = await holdKeysOf(dataDir, shared);
  const holds = new Map<string, HeldThings>();
  for (const { said } of actions.logged) {
    if (said.does !== 'hold') continue;
    const { action, record } = said;
    const text = shared === undefined ? recordText(dataDir, action) : await shared.holdRecords.get(action);
    const read = recordIn(text, record, keys?.holdKey(action));
    const isOver = !actions.holds.has(action);
    if (typeof read !== 'string')
      holds.set(action, {
        ...{ name: read.name, organisations: new Set(read.organisations), events: metBy(read) },
        runs: new Set([...read.runs, ...(read.met?.runs ?? [])]),
      });
    else if (isOver || (read === 'closed' && keys === undefined)) holds.set(action, NOTHING_HELD);
  }
  return holds;
}

const NOTHING_HELD: HeldThings = {
  ...{ name: '', organisations: new Set(), runs: new Set(), events: SequenceSet.EMPTY },
};

/** Undefined if the log's keys cannot be opened here. */
async function holdKeysOf(
  dataDir: string,
  shared: OpenSharedStore | undefined,
): Promise<Pick<StoredKeys, 'holdKey'> | undefined> {
  try {
    if (shared !== undefined) return await shared.storedKeys();
    return readKeys(readKeyPlaces(dataDir));
  } catch (error) {
    // The audit has reported it.
    if (error instanceof KeysUnfit || error instanceof KekFault || error instanceof VaultAway)
      return undefined;
    throw error;
  }
}

async function* unlawfulFindings(
  { dataDir, shared }: Pick<VerificationOptions, 'dataDir' | 'shared'>,
  { actions, events }: AuditedLog['erasures'],
): AsyncGenerator<VerifyFinding> {
  const erased = erasedUnderHolds(actions);
  if (erased.length === 0) return;
  const holds = await holdsThatStood({ dataDir, shared }, actions);
  yield* heldFindings(erased, holds, events(SequenceSet.ofStretches(erased)));
}

/** Uses only the keys of the directory: a verifier with an older key may not have the later ones. */
function rotationFindings(dataDir: string, newest: string | undefined): VerifyFinding[] {
  let unknown: string | undefined;
  try {
    unknown = newest && unknownSigner(newest, readHistory(dataDir).keys);
  } catch {
    // Faults of the keys or the note are reported where they are read.
    return [];
  }
  return unknown ? [finding('rotation_missing', { file: LATEST }, LATEST, rotationMissing(unknown))] : [];
}

/** The first checkpoint, over no events, is signed before the first event is accepted. */
function noNewest(entries: number): VerifyFinding {
  const place = { file: LATEST };
  return entries === 0 ? finding('nothing_signed', place) : finding('latest_missing', place, LATEST, entries);
}

interface GivenOut {
  readonly size: number;
  /** The file that records it. */
  readonly file: string;
}

/** The largest checkpoint that a sink accepted, or that was known when the log was restored. */
function givenOut(dataDir: string, findings: VerifyFindings): GivenOut {
  let file = 'known.json';
  try {
    const known = readKnownCheckpoint(dataDir);
    const read: Partial<ReadNote> | string = known === undefined ? {} : readNote(known);
    if (typeof read === 'string') throw new Error(read);
    const size = read.checkpoint?.size ?? 0;
    file = 'sinks.json';
    const taken = Math.max(0, ...readSinkStates(dataDir).map((sink) => sink.size ?? 0));
    return size > taken ? { size, file: 'known.json' } : { size: taken, file };
  } catch (error) {
    const path = `checkpoints/${file}`;
    findings.add(finding('sinks_unread', { file: path }, path, messageOf(error)));
    return { size: 0, file };
  }
}

/** Up to an hour is not a fault: events wait briefly, and a signer may be unavailable. */
function waitingFinding(count: number, { sequence, oldest, newest }: Waiting): VerifyFinding {
  const since = oldest <= LAST_INSTANT_MS ? new Date(oldest).toISOString() : 'an invalid time';
  return newest - oldest <= LONGEST_WAIT_MS
    ? finding('unsigned', { sequence }, count, sequence, since)
    : finding('unsigned_for_long', { sequence, file: LATEST }, count, sequence, since);
}
