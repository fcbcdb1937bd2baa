/** What `doctor` says of the tree, its newest checkpoint, the key that signs, and the sinks. */
import fs from 'node:fs';
import path from 'node:path';
import { parseCheckpoint, type Checkpoint } from '@clinical-events/protocol/verify';
import type { Config } from '../config.js';
import { rootAt, TilesIncomplete } from '../integrity/merkle.js';
import { verifyNote } from '../integrity/note-signing.js';
import { describe, readSinkStates, SinkStatesDamaged } from '../publishing/sink-state.js';
import { readHistory, type KeyHistory } from '../signing/key-history.js';
import { PrivateKeys } from '../signing/private-keys.js';
import { SigningKeyFault } from '../signing/signing-key-fault.js';
import { exists, nodeFiles } from '../store/embedded/files.js';
import type { Finding } from '../store/embedded/inspection.js';
import { checkpointDirectory, TreeFiles } from '../store/embedded/tree-files.js';

/** A running collector signs about once a second; a checkpoint older than this while events wait is a warning. */
const LATE_MS = 60_000;

/**
 * @param events how many the log holds, when it could be read to its end.
 * @param running whether a collector runs on the directory.
 */
export function* proofFindings(
  config: Config,
  events: number | undefined,
  running: boolean,
  now = Date.now(),
): Generator<Finding> {
  const { dataDir } = config;
  let history: KeyHistory;
  try {
    history = readHistory(dataDir);
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    const severity = error.reason === 'no-log' && events === 0 ? 'ok' : 'damage';
    yield { severity, subject: 'signing key', message: error.message };
    return;
  }
  yield keyFinding(config, history);
  yield* checkpointFindings(dataDir, history, events, running, now);
  yield* sinkFindings(dataDir, now);
}

function keyFinding({ signingCommand, signingKeys }: Config, { current }: KeyHistory): Finding {
  const subject = 'signing key';
  if (signingCommand !== '') {
    return { severity: 'ok', subject, message: `signs by ${signingCommand}: ${current.vkey}` };
  }
  const keys = new PrivateKeys(signingKeys);
  const file = keys.pathOf(current);
  if (!exists(file)) {
    return { severity: 'warning', subject, message: `${file} is not there: no checkpoint can be signed` };
  }
  const exposure = keys.exposureOf(current);
  if (exposure !== undefined) return { severity: 'warning', subject, message: exposure };
  return { severity: 'ok', subject, message: `${file}, for its owner alone` };
}

function* checkpointFindings(
  dataDir: string,
  { keys, origin }: KeyHistory,
  events: number | undefined,
  running: boolean,
  now: number,
): Generator<Finding> {
  const subject = 'checkpoint';
  const tree = TreeFiles.read(dataDir, nodeFiles);
  try {
    const note = tree.checkpoint();
    if (note === undefined) {
      const message = 'checkpoints/latest is missing; without it a collector with events does not start';
      yield { severity: 'damage', subject, message };
      return;
    }
    let checkpoint: Checkpoint;
    try {
      checkpoint = parseCheckpoint(verifyNote(note, keys).text);
      if (checkpoint.origin !== origin) throw new Error('its origin is not that of the keys');
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `checkpoints/latest is not a checkpoint of this log: ${reason}`;
      yield { severity: 'damage', subject, message };
      return;
    }
    const { size } = checkpoint;
    const age = now - fs.statSync(path.join(checkpointDirectory(dataDir), 'latest')).mtimeMs;
    const waiting = events === undefined ? 0 : Math.max(0, events - size);
    const said = `over ${size} of ${events ?? 'an unknown number of'} events`;
    if (events !== undefined && events < size) {
      yield { severity: 'damage', subject, message: `${said}: events are missing from the end of the log` };
    } else if (waiting > 0 && running && age > LATE_MS) {
      const minutes = Math.floor(age / 60_000);
      const message = `${said}, ${minutes} min old: the collector cannot sign, and its log says why`;
      yield { severity: 'warning', subject, message };
    } else {
      const rest = waiting === 0 ? '' : running ? '; the next one is due' : '; the next start signs the rest';
      yield { severity: 'ok', subject, message: `${said}, signed as ${origin}${rest}` };
    }
    yield treeFinding(tree, checkpoint);
  } finally {
    tree.close();
  }
}

/** Looks at the right edge only; every hash is for `collector verify`. */
function treeFinding(tree: ReturnType<typeof TreeFiles.read>, { size, root }: Checkpoint): Finding {
  const subject = 'tree';
  try {
    if (rootAt(tree, size).equals(root)) {
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

function* sinkFindings(dataDir: string, now: number): Generator<Finding> {
  const subject = 'sink';
  try {
    const states = readSinkStates(dataDir);
    for (const state of states) {
      const severity = ({ ok: 'ok', failing: 'warning', forked: 'damage' } as const)[state.state];
      yield { severity, subject, message: describe(state, now) };
    }
    if (states.length > 0) return;
  } catch (error) {
    if (!(error instanceof SinkStatesDamaged)) throw error;
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
