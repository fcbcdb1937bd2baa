/** What `doctor` says of the tree, its newest checkpoint, the key that signs, the access log, and the sinks. */
import fs from 'node:fs';
import type { Config } from '../../config.js';
import { counted } from '../../quantity.js';
import { exists } from '../../files.js';
import type { NoteKey } from '../../tree/note-signing.js';
import { StateFileDamaged, describe, readCheckpointTrouble, readSinkStates } from '../../tree/state-files.js';
import { programFault } from '../../tree/command-signer.js';
import {
  readHistory,
  type KeyHistory,
  PrivateKeys,
  SigningKeyFault,
  signingProgram,
} from '../../tree/key-files.js';
import type { StoreFinding } from '../../store/findings.js';
import type { CheckedRoot } from '../../store/log-audit.js';
import { accessLogText, type AccessLogState } from './access-log-check.js';
import { deniedPath } from '../exit-codes.js';
import type { Verification, VerifyFindings } from './verification.js';

/** A running collector signs about once a second; an event that waits longer than this is a warning. */
const LATE_MS = 60_000;

export type Finding = StoreFinding;

export function about(severity: Finding['severity'], subject: string, message: string): Finding {
  return { severity, subject, message };
}

/** @param running whether a collector runs on the directory. @param isMirror others sign its log, and give checkpoints away. */
export function* proofFindings(
  config: Config,
  log: Verification,
  running: boolean,
  isMirror: boolean,
): Generator<Finding> {
  const { dataDir } = config;
  let history: KeyHistory;
  try {
    history = readHistory(dataDir);
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    const severity = error.reason === 'no-log' && log.entries === 0 ? 'ok' : 'damage';
    yield about(severity, 'signing key', error.message);
    return;
  }
  if (!isMirror) yield keyFinding(config, history);
  yield* checkpointFindings(dataDir, log, running);
  yield* accessLogFindings(log.access);
  if (!isMirror) yield* sinkFindings(dataDir, Date.now());
}

/** Of a log in a database. @param dataDir with what is public of it. */
export function* sharedProofFindings(dataDir: string, log: Verification): Generator<Finding> {
  yield* checkpointFindings(
    dataDir,
    log,
    true,
    'delete the rows of tiles, and the next start of a collector',
  );
  yield* accessLogFindings(log.access);
}

function keyFinding({ signingKeys }: Config, { current }: KeyHistory): Finding {
  const subject = 'signing key';
  const program = signingProgram(signingKeys);
  if (program !== undefined) {
    const fault = programFault(program);
    if (fault !== undefined) return about('warning', subject, `--signing-keys: ${fault}`);
    return about('ok', subject, `signs by ${program}: ${current.vkey}`);
  }
  const keys = new PrivateKeys(signingKeys);
  const file = keys.pathOf(current);
  if (!keys.isThere()) {
    const message = `not in ${signingKeys}/, and without it no collector starts: after a restore bring it back; if a program signs, give doctor the same --signing-keys command:PROGRAM`;
    return about('warning', subject, message);
  }
  if (!exists(file)) {
    const message = `${file} is not there, and without it or a program that signs no collector starts; after a restore bring it back`;
    return about('warning', subject, message);
  }
  const fault = unusable(keys, current);
  if (fault !== undefined) return fault;
  const exposure = keys.exposureOf(current);
  if (exposure !== undefined) return about('warning', subject, exposure);
  return about('ok', subject, `${file}, for its owner alone`);
}

/** What the next start would say of the private key; undefined when it would sign with it. */
function unusable(keys: PrivateKeys, current: NoteKey): Finding | undefined {
  try {
    keys.read(current);
    return undefined;
  } catch (error) {
    const denied = deniedPath(error);
    if (denied !== undefined)
      return about('warning', 'signing key', `${denied} may not be read by this user`);
    if (!(error instanceof Error)) throw error;
    return about('damage', 'signing key', `${error.message}; no collector starts with it`);
  }
}

function* checkpointFindings(
  dataDir: string,
  log: Verification,
  running: boolean,
  repair = 'remove tree/ while no collector runs, and the next start',
): Generator<Finding> {
  const subject = 'checkpoint';
  const { findings, checkpoints, entries } = log;
  // Entries that wait for one are told of below.
  const faults = findings.listed.filter(
    ({ kind, sequence }) => kind.startsWith('checkpoint') && sequence === undefined,
  );
  for (const { message } of faults) yield about('damage', subject, message);
  if (checkpoints.newest !== undefined) yield waitingFinding(dataDir, checkpoints.newest, log, running);
  else if (faults.length === 0 && entries === 0) {
    // As a first start leaves it that was killed.
    yield about('ok', subject, 'none yet, as of an empty log; the next start signs the first one');
  }
  yield* troubleFindings(dataDir);
  if (checkpoints.newest !== undefined) yield treeFinding(findings, repair);
}

/** Whether entries wait for a checkpoint that should have come. */
function waitingFinding(
  dataDir: string,
  { origin, size }: CheckedRoot,
  { entries, waiting }: Verification,
  running: boolean,
): Finding {
  const subject = 'checkpoint';
  const said = `over ${counted(size, 'entry', 'entries')}, signed as ${origin}`;
  if (entries <= size) return about('ok', subject, said);
  const after = `${counted(entries - size, 'entry', 'entries')} after them`;
  if (!running) return about('ok', subject, `${said}; the next start signs ${after}`);
  const since = waiting?.oldest ?? Date.now();
  if (Date.now() - since < LATE_MS) return about('ok', subject, `${said}; the next one is due for ${after}`);
  const why = whyUnsigned(freeBytes(dataDir));
  return about('warning', subject, `${said}; ${after} wait since ${new Date(since).toISOString()}: ${why}`);
}

/** Less than this is no room for a checkpoint, nor for the note of why there is none. */
const FULL_BYTES = 1 << 20;

/** @param free bytes on the disk of the data directory. */
export function whyUnsigned(free: number): string {
  if (free >= FULL_BYTES) return 'the collector cannot sign, and its log says why';
  return 'the disk is full, and a checkpoint needs room: make some, and the collector signs by itself';
}

function freeBytes(dataDir: string): number {
  const { bavail, bsize } = fs.statfsSync(dataDir);
  return bavail * bsize;
}

/** What the collector that runs, or ran last, has left of why it could make no checkpoint. */
function* troubleFindings(dataDir: string): Generator<Finding> {
  const trouble = yield* readable('checkpoint', () => readCheckpointTrouble(dataDir));
  if (trouble === undefined) return;
  const { since, reason } = trouble;
  yield about('warning', 'checkpoint', `no checkpoint could be made since ${since}: ${reason}`);
}

/** What a state file says; undefined when it is damaged, which is a finding. */
function* readable<State>(subject: string, read: () => State): Generator<Finding, State | undefined> {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof StateFileDamaged)) throw error;
    yield about('warning', subject, error.message);
    return undefined;
  }
}

/** The hashes are derived from the events, so nothing about them is damage of what is stored. */
function treeFinding({ listed }: VerifyFindings, repair: string): Finding {
  const subject = 'tree';
  if (!listed.some(({ kind, file }) => kind === 'tile_altered' || file === 'tree'))
    return about('ok', subject, 'comes to the root that was signed');
  return about('warning', subject, `does not come to the root that was signed: ${repair} rebuilds it`);
}

function* accessLogFindings(state: AccessLogState | undefined): Generator<Finding> {
  const subject = 'access log';
  if (state === undefined) return;
  const faults = state.findings.filter(({ kind }) => kind !== 'note');
  for (const { message } of faults) yield about('damage', subject, message);
  if (faults.length === 0) yield about('ok', subject, accessLogText(state));
  for (const { kind, message } of state.findings) {
    if (kind === 'note') yield about('warning', subject, message);
  }
}

function* sinkFindings(dataDir: string, now: number): Generator<Finding> {
  const subject = 'sink';
  const states = yield* readable(subject, () => readSinkStates(dataDir));
  for (const state of states ?? []) {
    const severity = ({ ok: 'ok', failing: 'warning', forked: 'damage' } as const)[state.state];
    const isOdd = state.also_holds !== undefined || state.lost_at !== undefined;
    yield about(severity === 'ok' && isOdd ? 'warning' : severity, subject, describe(state, now));
  }
  if (states?.length !== 0) return;
  const message =
    'checkpoints stay on this host, which could rewrite its log unseen: give them away by --checkpoint-sink';
  yield about('warning', subject, message);
}
