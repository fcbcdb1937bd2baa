/**
 * The whole check of a log, for `collector verify`: reads every byte, changes none, and needs no lock.
 *
 * Beside a running collector the order of reading is what keeps it from seeing faults where there are none. A
 * checkpoint is signed over what is durable and whose hashes are staged. So every checkpoint is read first, then the
 * keys (a rotation is noted before its key signs), and only then the log and the tree, which by then hold at least what
 * these checkpoints say. What lies behind the largest of them is looked at by itself, and held against nothing.
 */
import { parseCheckpoint, parseNote } from '@clinical-events/protocol/verify';
import { counted } from '../../quantity.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { erasedUnderHolds, heldFindings, type HeldThings } from '../../store/lifecycle-findings.js';
import {
  type AuditedLog,
  type AuditOptions,
  type FindingList,
  type VerifyFinding,
  type Waiting,
} from '../../store/log-audit.js';
import { copySharedLog } from '../../replica/shared-log.js';
import { LogAudit } from '../../store/open-to-audit.js';
import { openStore, type OpenSharedStore } from '../../store/open-to-read.js';
import { readKnownCheckpoint, readMirrorNote, readSinkStates } from '../../tree/state-files.js';
import { rotationMissing, unknownSigner } from '../../tree/note-signing.js';
import { readHistory } from '../../tree/key-files.js';
import { AccessLogCheck, type AccessLogState } from './access-log-check.js';
import { notesElsewhere, notesOfDirectory, SignedCheckpoints } from './signed-checkpoints.js';
import { metBy, recordIn, recordOf } from '../lifecycle/holds.js';
import { printable } from '../terminal.js';
import { checkRegular, PROOF_DIRECTORIES } from '../regular-files.js';
import { keysOf, type LogKeys } from './trusted-keys.js';

/** So many faults, and so many notes, are listed. */
const MOST_LISTED = 100;
/** A collector signs about once a second: far longer than any trouble in signing should last. */
const LONGEST_WAIT_MS = 3_600_000;
/** What a Date can hold. */
const LAST_INSTANT_MS = 8.64e15;
const LATEST = 'checkpoints/latest';

/** What `collector verify` has found. */
export class VerifyFindings implements FindingList {
  readonly #faults: VerifyFinding[] = [];
  readonly #notes: VerifyFinding[] = [];
  /** Faults that are only counted. */
  unlisted = 0;
  #confirmed = false;

  add(finding: VerifyFinding): void {
    const list = finding.kind === 'note' ? this.#notes : this.#faults;
    if (list.length < MOST_LISTED) list.push({ ...finding, message: printable(finding.message) });
    else if (finding.kind !== 'note') this.unlisted++;
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

  /** By the events that they are about, what is about none first; notes last. */
  get listed(): readonly VerifyFinding[] {
    const bySequence = (a: VerifyFinding, b: VerifyFinding) => (a.sequence ?? 0) - (b.sequence ?? 0);
    return [...this.#faults.toSorted(bySequence), ...this.#notes.toSorted(bySequence)];
  }
}

export interface VerificationOptions extends Omit<AuditOptions, 'shared'> {
  /** The log, if it is in a database; the directory then holds what is public of it, and is thrown away. */
  readonly shared?: OpenSharedStore | undefined;
  /** Files and directories with checkpoints that were kept elsewhere. */
  readonly against: readonly string[];
  /** Verifier keys; those of the data directory when none is given. */
  readonly keys: readonly string[];
  /** Rotation notes, besides those of the data directory. */
  readonly rotations?: readonly string[];
  /** How many accesses the command that verifies has logged itself. */
  readonly ownAccesses?: number;
}

export interface Verification extends AuditedLog {
  readonly findings: VerifyFindings;
  readonly keys: LogKeys;
  readonly checkpoints: SignedCheckpoints;
  /** Undefined when no access was ever logged. */
  readonly access: AccessLogState | undefined;
}

/** @throws CommandFailure when what is to be held against the log is not there; whatever the system says of a file. */
export async function verifyLog(options: VerificationOptions): Promise<Verification> {
  const { dataDir } = options;
  const findings = new VerifyFindings();
  // Segments are looked at one by one (segment-survey.ts), and the index is not read.
  checkRegular(dataDir, PROOF_DIRECTORIES);
  // A checkpoint is the newest one before it is given out.
  const sizesGivenOut = givenOut(dataDir, findings);
  const { shared } = options;
  const tree = shared?.tree ?? openStore(dataDir).tree;
  try {
    const passedOver = new Map<string, string>();
    const newest = await tree.head();
    const notes = notesOfDirectory(dataDir, newest);
    const elsewhere = options.against.map((given) =>
      notesElsewhere(given, (file, why) => passedOver.set(file, why)),
    );
    const keys = keysOf(dataDir, newest, options, findings);
    for (const finding of rotationFindings(dataDir, newest)) findings.add(finding);
    const checkpoints = new SignedCheckpoints(keys, findings);
    checkpoints.take(notes);
    for (const [i, given] of elsewhere.entries()) checkpoints.take(given, options.against[i]);
    checkpoints.finish();
    for (const [file, why] of passedOver) {
      findings.add({ kind: 'note', file, message: `${file} ${why} and was passed over` });
    }
    const accesses = (shared ?? openStore(dataDir)).accessLog;
    const accessLog = new AccessLogCheck(
      accesses,
      options.ownAccesses,
      readMirrorNote(dataDir) !== undefined,
    );
    const copy = shared && (await copySharedLog(shared, dataDir, options.onProgress));
    const audit = new LogAudit({ ...options, shared: copy }, tree, checkpoints, accessLog);
    const audited = await audit.tell(copy === undefined ? findings : withoutPlaces(findings));
    const log = { ...audited, ...(await copy?.evidence.tell(findings)) };
    const { entries, unsigned, waiting } = log;
    for await (const finding of unlawfulFindings(options, log.erased)) findings.add(finding);
    if (!checkpoints.hasNewest) findings.add(noNewest(entries));
    else if (checkpoints.newest !== undefined) {
      for (const finding of waitingFindings(unsigned, waiting)) findings.add(finding);
      for (const finding of givenOutFindings(checkpoints.newest.size, sizesGivenOut)) findings.add(finding);
    }
    const access = await accessLog.finish();
    for (const finding of access?.findings ?? []) findings.add(finding);
    return { ...log, findings, keys, checkpoints, access };
  } finally {
    if (shared === undefined) await tree.close();
  }
}

/** Places in a copy that is thrown away mean nothing to who asks. */
function withoutPlaces(findings: VerifyFindings): FindingList {
  return {
    add({ file, offset, ...finding }) {
      if (file?.startsWith('ledger/') !== true)
        return findings.add({ ...finding, ...(file && { file, offset }) });
      const message = finding.message.replaceAll(/; ledger\/\d{16}\.segment, byte \d+/g, '');
      findings.add({ ...finding, message });
    },
    confirm: () => findings.confirm(),
    get faults() {
      return findings.faults;
    },
    get unlisted() {
      return findings.unlisted;
    },
    set unlisted(count) {
      findings.unlisted = count;
    },
  };
}

async function* unlawfulFindings(
  { dataDir, shared }: Pick<VerificationOptions, 'dataDir' | 'shared'>,
  { actions, events }: AuditedLog['erased'],
): AsyncGenerator<VerifyFinding> {
  const erased = erasedUnderHolds(actions);
  if (erased.length === 0) return;
  const holds = new Map<string, HeldThings>();
  for (const { said } of actions.logged) {
    if (said.does !== 'hold') continue;
    const read =
      shared === undefined
        ? recordOf(dataDir, said.action, said.record)
        : recordIn((await shared.holdRecords.get(said.action)) ?? '', said.record);
    if (read === undefined) continue;
    holds.set(said.action, {
      ...{ name: read.name, organisations: new Set(read.organisations), events: metBy(read) },
      runs: new Set([...read.runs, ...(read.met?.runs ?? [])]),
    });
  }
  yield* heldFindings(erased, holds, events(SequenceSet.ofStretches(erased)));
}

/** Against the keys of the directory alone: anyone who holds only an older key may leave out what it hands on to. */
function* rotationFindings(dataDir: string, newest: string | undefined): Generator<VerifyFinding> {
  let unknown: string | undefined;
  try {
    unknown = newest && unknownSigner(newest, readHistory(dataDir).keys);
  } catch {
    // What is wrong with the keys or the note is reported where these are read.
    return;
  }
  if (!unknown) return;
  const file = LATEST;
  yield { kind: 'checkpoint_invalid', file, message: `${file}: ${rotationMissing(unknown)}` };
}

/** The first checkpoint, of no events, is signed before the first event is taken. */
function noNewest(entries: number): VerifyFinding {
  const file = LATEST;
  if (entries === 0) return { kind: 'note', file, message: 'nothing was stored and nothing signed yet' };
  const message = `${file} is missing, although the log holds ${counted(entries, 'entry', 'entries')}`;
  return { kind: 'checkpoint_missing', file, message };
}

interface GivenOut {
  readonly size: number;
  /** Which file has it. */
  readonly file: string;
}

/** The largest checkpoint that a sink took, or that was known when the log was restored. */
function givenOut(dataDir: string, findings: VerifyFindings): GivenOut {
  let file = 'known.json';
  try {
    const known = readKnownCheckpoint(dataDir);
    const size = known === undefined ? 0 : parseCheckpoint(parseNote(known).text).size;
    file = 'sinks.json';
    const taken = Math.max(0, ...readSinkStates(dataDir).map((sink) => sink.size ?? 0));
    return size > taken ? { size, file: 'known.json' } : { size: taken, file };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    file = `checkpoints/${file}`;
    findings.add({ kind: 'note', file, message: `${file} cannot be read, and was not compared: ${why}` });
    return { size: 0, file };
  }
}

/** Up to an hour it is no fault: events wait for a moment, and a signer can be down. */
function waitingFindings(count: number, waiting: Waiting | undefined): VerifyFinding[] {
  if (count === 0 || waiting === undefined) return [];
  const { sequence, oldest, newest } = waiting;
  const since = oldest <= LAST_INSTANT_MS ? new Date(oldest).toISOString() : 'a time that is none';
  const are = count === 1 ? 'is' : 'are';
  const message = `${counted(count, 'entry', 'entries')}, from number ${sequence} on, ${are} under no checkpoint yet; the oldest was received at ${since}`;
  if (newest - oldest <= LONGEST_WAIT_MS) return [{ kind: 'note', sequence, message }];
  const why =
    'more than an hour before the newest: nothing was signed for so long, or newer checkpoints were removed';
  return [{ kind: 'checkpoint_missing', sequence, file: LATEST, message: `${message}, ${why}` }];
}

/**
 * @param size of the newest checkpoint of the data directory.
 * @param given what was given out before that checkpoint was read.
 */
function givenOutFindings(size: number, given: GivenOut): VerifyFinding[] {
  if (given.size <= size) return [];
  const message = `checkpoints over more entries than ${size} were given out (${given.file} says ${given.size})`;
  return [{ kind: 'checkpoint_missing', file: LATEST, message }];
}
