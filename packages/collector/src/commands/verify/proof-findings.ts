/** What `doctor` says of the tree, its newest checkpoint, the key that signs, the access log, and the sinks. */
import fs from 'node:fs';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import type { Config } from '../../config.js';
import { counted } from '../../quantity.js';
import { exists } from '../../files.js';
import { rootAt, TilesIncomplete } from '../../integrity/merkle.js';
import type { NoteKey } from '../../integrity/note-signing.js';
import {
  StateFileDamaged,
  describe,
  readCheckpointTrouble,
  readSinkStates,
} from '../../transparency/state-files.js';
import { programFault } from '../../transparency/command-signer.js';
import { readHistory, type KeyHistory } from '../../transparency/key-history.js';
import { PrivateKeys, SigningKeyFault } from '../../transparency/private-keys.js';
import { type Finding, openStore } from '../../store/open.js';
import { cursorAt, type TreeReader } from '../../store/contract.js';
import { accessLogText, type AccessLogState } from './access-log-check.js';
import { diesWithDisk } from '../signing-key.js';
import { checkpointIn } from './log-checkpoints.js';
import { deniedPath } from '../exit-codes.js';

/** A running collector signs about once a second; an event that waits longer than this is a warning. */
const LATE_MS = 60_000;

/**
 * @param entries how many the log holds, when it could be read to its end.
 * @param accessLog what was found of it when it was held against the heads that could be read.
 * @param claimed what `claimedSize` said before they were counted: a running collector goes on meanwhile.
 * @param running whether a collector runs on the directory.
 */
export async function* proofFindings(
  config: Config,
  entries: number | undefined,
  accessLog: AccessLogState | undefined,
  claimed: number,
  running: boolean,
): AsyncGenerator<Finding> {
  const { dataDir } = config;
  // Before the keys: a rotation is noted before its key signs.
  const note = await openStore(dataDir).tree.head();
  let history: KeyHistory;
  try {
    history = readHistory(dataDir);
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    const severity = error.reason === 'no-log' && entries === 0 ? 'ok' : 'damage';
    yield { severity, subject: 'signing key', message: error.message };
    return;
  }
  yield* keyFindings(config, history);
  if (entries !== undefined && entries < claimed) {
    const message = `over ${counted(claimed, 'entry', 'entries')}, and the log holds ${entries}: the others are missing from its end`;
    yield { severity: 'damage', subject: 'checkpoint', message };
  } else yield* checkpointFindings(dataDir, note, history, entries, running);
  yield* accessLogFindings(accessLog);
  yield* sinkFindings(dataDir, Date.now());
}

function* keyFindings(config: Config, history: KeyHistory): Generator<Finding> {
  const finding = keyFinding(config, history);
  yield finding;
  if (finding.severity !== 'ok' || !diesWithDisk(config, history)) return;
  const message =
    'is stored only on the disk of the log, and without it the log cannot be continued: copy it to a safe place ' +
    '(docs/guide/operate.md, "Escrow of the signing key"), then confirm the copy: collector signing-key copied';
  yield { severity: 'warning', subject: 'signing key', message };
}

function keyFinding({ signingCommand, signingKeys }: Config, { current }: KeyHistory): Finding {
  const subject = 'signing key';
  if (signingCommand !== '') {
    const fault = programFault(signingCommand);
    if (fault !== undefined) return { severity: 'warning', subject, message: `--signing-command: ${fault}` };
    return { severity: 'ok', subject, message: `signs by ${signingCommand}: ${current.vkey}` };
  }
  const keys = new PrivateKeys(signingKeys);
  const file = keys.pathOf(current);
  if (!keys.isThere()) {
    const message = `not in ${signingKeys}/, and without it no collector starts: after a restore bring it back; if it is behind a --signing-command, tell doctor so`;
    return { severity: 'warning', subject, message };
  }
  if (!exists(file)) {
    const message = `${file} is not there, and without it or its --signing-command no collector starts; after a restore bring it back`;
    return { severity: 'warning', subject, message };
  }
  const fault = unusable(keys, current);
  if (fault !== undefined) return { ...fault, subject };
  const exposure = keys.exposureOf(current);
  if (exposure !== undefined) return { severity: 'warning', subject, message: exposure };
  return { severity: 'ok', subject, message: `${file}, for its owner alone` };
}

/** What the next start would say of the private key; undefined when it would sign with it. */
function unusable(keys: PrivateKeys, current: NoteKey): Omit<Finding, 'subject'> | undefined {
  try {
    keys.read(current);
    return undefined;
  } catch (error) {
    const denied = deniedPath(error);
    if (denied !== undefined)
      return { severity: 'warning', message: `${denied} may not be read by this user` };
    if (!(error instanceof Error)) throw error;
    return { severity: 'damage', message: `${error.message}; no collector starts with it` };
  }
}

async function* checkpointFindings(
  dataDir: string,
  note: string | undefined,
  history: KeyHistory,
  entries: number | undefined,
  running: boolean,
): AsyncGenerator<Finding> {
  const subject = 'checkpoint';
  const tree = openStore(dataDir).tree;
  try {
    if (note === undefined) {
      // As a first start leaves it that was killed.
      const begun = entries !== 0;
      const message = begun
        ? 'checkpoints/latest is missing; without it a collector with events does not start'
        : 'none yet, as of an empty log; the next start signs the first one';
      yield { severity: begun ? 'damage' : 'ok', subject, message };
      return;
    }
    let checkpoint: Checkpoint;
    try {
      checkpoint = checkpointIn(note, history);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `checkpoints/latest is not a checkpoint of this log: ${reason}`;
      yield { severity: 'damage', subject, message };
      return;
    }
    yield await waitingFinding(dataDir, checkpoint, entries ?? 0, running);
    yield* troubleFindings(dataDir);
    yield await treeFinding(tree, checkpoint);
  } finally {
    await tree.close();
  }
}

/** Whether entries wait for a checkpoint that should have come. */
async function waitingFinding(
  dataDir: string,
  { origin, size }: Checkpoint,
  entries: number,
  running: boolean,
): Promise<Finding> {
  const subject = 'checkpoint';
  const said = `over ${counted(size, 'entry', 'entries')}, signed as ${origin}`;
  if (entries <= size) return { severity: 'ok', subject, message: said };
  const waiting = `${counted(entries - size, 'entry', 'entries')} after them`;
  if (!running) return { severity: 'ok', subject, message: `${said}; the next start signs ${waiting}` };
  const since = (await receivedAt(dataDir, size + 1)) ?? Date.now();
  if (Date.now() - since < LATE_MS) {
    return { severity: 'ok', subject, message: `${said}; the next one is due for ${waiting}` };
  }
  return {
    severity: 'warning',
    subject,
    message: `${said}; ${waiting} wait since ${new Date(since).toISOString()}: ${whyUnsigned(freeBytes(dataDir))}`,
  };
}

/** When an entry was received; undefined when the log ends before it. */
async function receivedAt(dataDir: string, sequence: number): Promise<number | undefined> {
  const log = openStore(dataDir).events;
  try {
    for await (const batch of log.pass(cursorAt(sequence)))
      for (const entry of batch) return entry.receivedAt;
    return undefined;
  } finally {
    await log.close();
  }
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
  const [severity, subject] = ['warning', 'checkpoint'] as const;
  try {
    const trouble = readCheckpointTrouble(dataDir);
    if (trouble === undefined) return;
    const { since, reason } = trouble;
    yield { severity, subject, message: `no checkpoint could be made since ${since}: ${reason}` };
  } catch (error) {
    if (!(error instanceof StateFileDamaged)) throw error;
    yield { severity, subject, message: error.message };
  }
}

/** Looks at the right edge only; every hash is for `collector verify`. */
async function treeFinding(tree: TreeReader, { size, root }: Checkpoint): Promise<Finding> {
  const subject = 'tree';
  try {
    if ((await rootAt(tree, size)).equals(root)) {
      return { severity: 'ok', subject, message: 'comes to the root that was signed; see collector verify' };
    }
  } catch (error) {
    if (!(error instanceof TilesIncomplete)) throw error;
  }
  return {
    severity: 'warning',
    subject,
    message: 'does not come to the root that was signed; the next start makes it anew from the events',
  };
}

function* accessLogFindings(state: AccessLogState | undefined): Generator<Finding> {
  const subject = 'access log';
  if (state === undefined) return;
  const faults = state.findings.filter(({ kind }) => kind !== 'note');
  for (const { message } of faults) yield { severity: 'damage', subject, message };
  if (faults.length === 0) yield { severity: 'ok', subject, message: accessLogText(state) };
  for (const { kind, message } of state.findings) {
    if (kind === 'note') yield { severity: 'warning', subject, message };
  }
}

function* sinkFindings(dataDir: string, now: number): Generator<Finding> {
  const subject = 'sink';
  try {
    const states = readSinkStates(dataDir);
    for (const state of states) {
      const severity = ({ ok: 'ok', failing: 'warning', forked: 'damage' } as const)[state.state];
      const isOdd = state.also_holds !== undefined || state.lost_at !== undefined;
      yield {
        severity: severity === 'ok' && isOdd ? 'warning' : severity,
        subject,
        message: describe(state, now),
      };
    }
    if (states.length > 0) return;
  } catch (error) {
    if (!(error instanceof StateFileDamaged)) throw error;
    yield { severity: 'warning', subject, message: error.message };
    return;
  }
  yield {
    severity: 'warning',
    subject,
    message:
      'checkpoints stay on this host, which could rewrite its log unseen: give them away by --checkpoint-sink',
  };
}
