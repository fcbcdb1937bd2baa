/**
 * Findings of `doctor` about the tree, the newest checkpoint, the signing key, the access log and the sinks.
 */
import fs from 'node:fs';
import type { Config } from '../../config.js';
import { exists } from '../../files.js';
import { counted } from '../../quantity.js';
import { asCheck, CHECKS, type StoreFinding } from '../../store/findings.js';
import type { CheckedRoot } from '../../store/log-audit.js';
import { messageOf } from '../../system-code.js';
import { StateFileDamaged, describe, readCheckpointTrouble, readSinkStates } from '../../tree/state-files.js';
import { programFault } from '../../tree/program.js';
import {
  readHistory,
  type KeyHistory,
  PrivateKeys,
  SigningKeyFault,
  signingProgram,
} from '../../tree/key-files.js';
import { accessLogText, type AccessLogState } from './access-log-check.js';
import { deniedPath } from '../exit-codes.js';
import type { Verification, VerifyFindings } from './verification.js';

/** A running collector signs about once per second; a longer wait is a warning. */
const LATE_MS = 60_000;

/**
 * @param running whether a collector runs on the directory. @param isMirror whether the log is signed
 *   elsewhere.
 */
export function* proofFindings(
  config: Config,
  log: Verification,
  running: boolean,
  isMirror: boolean,
): Generator<StoreFinding> {
  const { dataDir } = config;
  let history: KeyHistory;
  try {
    history = readHistory(dataDir);
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    const isEmpty = error.reason === 'no-log' && log.entries === 0;
    yield isEmpty ? CHECKS.signing_key_none(error.message) : CHECKS.signing_key_unknown(error.message);
    return;
  }
  if (!isMirror) yield keyFinding(config, history);
  yield* checkpointFindings(dataDir, log, running);
  yield* accessLogFindings(log.access);
  if (!isMirror) yield* sinkFindings(dataDir, Date.now());
}

/** The same for a log in a database. @param dataDir with the public files of the log. */
export function* sharedProofFindings(dataDir: string, log: Verification): Generator<StoreFinding> {
  const repair = 'delete the rows of tiles; the next start of a collector';
  yield* checkpointFindings(dataDir, log, true, repair);
  yield* accessLogFindings(log.access);
}

function keyFinding({ signingKeys }: Config, { current }: KeyHistory): StoreFinding {
  const program = signingProgram(signingKeys);
  if (program !== undefined) {
    const fault = programFault(program);
    return fault === undefined ? CHECKS.signer(program, current.vkey) : CHECKS.signer_faulty(fault);
  }
  const keys = new PrivateKeys(signingKeys);
  const file = keys.pathOf(current);
  if (!keys.isThere()) return CHECKS.signing_key_missing(`${signingKeys}/`);
  if (!exists(file)) return CHECKS.signing_key_missing(file);
  try {
    // The same check as at the next start.
    keys.read(current);
  } catch (error) {
    const denied = deniedPath(error);
    return denied === undefined
      ? CHECKS.signing_key_unfit(messageOf(error))
      : CHECKS.signing_key_denied(denied);
  }
  const exposure = keys.exposureOf(current);
  return exposure === undefined ? CHECKS.signing_key_private(file) : CHECKS.signing_key_exposed(exposure);
}

function* checkpointFindings(
  dataDir: string,
  log: Verification,
  running: boolean,
  repair = 'remove tree/ while no collector runs; the next start',
): Generator<StoreFinding> {
  const { findings, checkpoints, entries } = log;
  const { newest } = checkpoints;
  // Entries that wait for a checkpoint are reported below.
  const faults = findings.listed.filter(
    ({ kind, sequence }) => kind.startsWith('checkpoint') && sequence === undefined,
  );
  yield* faults.map(asCheck);
  if (newest !== undefined) yield waitingFinding(dataDir, newest, log, running);
  // The state after a first start that was killed.
  else if (faults.length === 0 && entries === 0) yield CHECKS.checkpoint_none();
  const trouble = readable(() => readCheckpointTrouble(dataDir));
  if (typeof trouble === 'string') yield CHECKS.checkpoint_unknown(trouble);
  else if (trouble !== undefined) yield CHECKS.checkpoint_failed(trouble.since, trouble.reason);
  if (newest !== undefined) yield treeFinding(findings, repair);
}

/** Whether entries have waited too long for a checkpoint. */
function waitingFinding(
  dataDir: string,
  { origin, size }: CheckedRoot,
  { entries, waiting }: Verification,
  running: boolean,
): StoreFinding {
  if (entries <= size) return CHECKS.checkpoint(size, origin, '');
  const after = `${counted(entries - size, 'entry', 'entries')} after them`;
  if (!running) return CHECKS.checkpoint(size, origin, `; the next start signs ${after}`);
  const since = waiting?.oldest ?? Date.now();
  if (Date.now() - since < LATE_MS)
    return CHECKS.checkpoint(size, origin, `; the next one is due for ${after}`);
  const why = whyUnsigned(freeBytes(dataDir));
  return CHECKS.checkpoint_late(size, origin, entries - size, new Date(since).toISOString(), why);
}

/** Below this there is no room for a checkpoint or a note about its absence. */
const FULL_BYTES = 1 << 20;

/** @param free bytes on the disk of the data directory. */
export function whyUnsigned(free: number): string {
  if (free >= FULL_BYTES) return 'the collector cannot sign; see its log';
  return 'the disk is full, and a checkpoint needs space: free some, and the collector signs';
}

function freeBytes(dataDir: string): number {
  const { bavail, bsize } = fs.statfsSync(dataDir);
  return bavail * bsize;
}

/** The content of a state file, or why it is damaged. */
function readable<State>(read: () => State): State | string {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof StateFileDamaged)) throw error;
    return error.message;
  }
}

function treeFinding({ listed }: VerifyFindings, repair: string): StoreFinding {
  const isWrong = listed.some(({ kind, file }) => kind === 'tile_altered' || file === 'tree');
  return isWrong ? CHECKS.tree_wrong(repair) : CHECKS.tree_same();
}

function* accessLogFindings(state: AccessLogState | undefined): Generator<StoreFinding> {
  if (state === undefined) return;
  const isNote = ({ kind }: { readonly kind: string }) => kind === 'note';
  const faults = state.findings.filter((each) => !isNote(each));
  // An unreadable access log is damage here, whatever its kind is elsewhere.
  for (const { message } of faults) yield { severity: 'damage', subject: 'access log', message };
  // Only `verify` has the option.
  if (faults.length === 0)
    yield CHECKS.access_log(accessLogText(state, 'collector verify --access-log FILE'));
  for (const { message } of state.findings.filter(isNote)) yield CHECKS.access_log_noted(message);
}

function* sinkFindings(dataDir: string, now: number): Generator<StoreFinding> {
  const states = readable(() => readSinkStates(dataDir));
  if (typeof states === 'string') {
    yield CHECKS.sink_unknown(states);
    return;
  }
  for (const state of states) {
    const severity = ({ ok: 'ok', failing: 'warning', forked: 'damage' } as const)[state.state];
    const isOdd = severity === 'ok' && state.lost_at !== undefined;
    yield { severity: isOdd ? 'warning' : severity, subject: 'sink', message: describe(state, now) };
  }
  if (states.length === 0) yield CHECKS.sink_none();
}
