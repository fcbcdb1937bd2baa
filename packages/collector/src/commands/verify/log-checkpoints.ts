/** The checkpoints of a data directory that belong to this log and are signed with its keys. */
import fs from 'node:fs';
import path from 'node:path';
import { type Checkpoint, formatNote, keyIdText, type NoteSignature } from '@clinical-events/protocol/verify';
import { rotationMissing, unknownSigner, verifyNote } from '../../tree/note-signing.js';
import { readHistory, type KeyHistory, SigningKeyFault } from '../../tree/key-files.js';
import { checkpointDirectory } from '../../store/open.js';
import type { TreeReader } from '../../store/contract/tree.js';
import { messageOf } from '../../system-code.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { COSIGNED, readNote } from './signed-notes.js';

export interface SignedCheckpoint {
  /** The signed note. */
  readonly note: string;
  readonly checkpoint: Checkpoint;
}

export interface LogCheckpoints {
  readonly history: KeyHistory;
  readonly newest: SignedCheckpoint;
}

/**
 * The newest checkpoint and the keys of the log.
 * @returns undefined if nothing is signed yet.
 * @throws CommandFailure if the keys are inconsistent, or none of them signed the checkpoint.
 */
export async function newestCheckpoint(
  dataDir: string,
  tree: TreeReader,
): Promise<LogCheckpoints | undefined> {
  // The note is read first: a rotation is recorded before its key signs, so the keys read later include the
  // signer.
  const note = await tree.head();
  const history = keysOf(dataDir);
  if (history === undefined || note === undefined) return undefined;
  try {
    return { history, newest: { note, checkpoint: checkpointIn(note, history) } };
  } catch (error) {
    throw damaged(`checkpoints/latest is not a checkpoint of this log: ${messageOf(error)}`, error);
  }
}

/**
 * The newest checkpoint over at least `covering` entries with a witness's cosignature, and with the
 * cosignatures of all witnesses that share it.
 * @param warn called for each file that is not such a checkpoint.
 */
export function newestCosigned(
  dataDir: string,
  history: KeyHistory,
  covering: number,
  warn: (message: string) => void,
): SignedCheckpoint | undefined {
  const directory = checkpointDirectory(dataDir);
  let newest: SignedCheckpoint | undefined;
  for (const name of fs.readdirSync(directory).sort()) {
    if (!COSIGNED.test(name)) continue;
    let found: SignedCheckpoint;
    try {
      const note = fs.readFileSync(path.join(directory, name), 'utf8');
      found = { note, checkpoint: checkpointIn(note, history) };
    } catch (error) {
      warn(`checkpoints/${name} is ignored: not a checkpoint of this log: ${messageOf(error)}`);
      continue;
    }
    const { size } = found.checkpoint;
    if (size < covering || cosigners(found.note, history).length === 0) continue;
    if (newest === undefined || size > newest.checkpoint.size) newest = found;
    else newest = merged(newest, found);
  }
  return newest;
}

/** The other signers of the note: name and key id, as a verifier key begins. Not verified. */
export function cosigners(note: string, { keys }: Pick<KeyHistory, 'keys'>): string[] {
  const read = readNote(note);
  if (typeof read === 'string') return [];
  const isOfLog = (signature: NoteSignature) =>
    keys.some(({ name, keyId }) => name === signature.name && keyId === signature.keyId);
  return read.signatures.filter((each) => !isOfLog(each)).map(signerText);
}

function signerText({ name, keyId }: NoteSignature): string {
  return `${name}+${keyIdText(keyId)}`;
}

/** @throws Error if the note is not a checkpoint of this log; the message is a clause. */
export function checkpointIn(
  note: string,
  { keys, origin }: Pick<KeyHistory, 'keys' | 'origin'>,
): Checkpoint {
  const read = readNote(note);
  if (typeof read === 'string') throw new Error(read);
  const { checkpoint } = read;
  if (checkpoint === undefined) throw new Error('it is a rotation note');
  verifyNote(note, keys);
  if (checkpoint.origin !== origin) throw new Error(`it is of ${checkpoint.origin}`);
  const unknown = unknownSigner(note, keys);
  if (unknown !== undefined) throw new Error(rotationMissing(unknown));
  return checkpoint;
}

/** Two notes with the same text, with the signatures of both; otherwise the first. */
function merged(one: SignedCheckpoint, other: SignedCheckpoint): SignedCheckpoint {
  const [first, second] = [readNote(one.note), readNote(other.note)];
  if (typeof first === 'string' || typeof second === 'string' || first.text !== second.text) return one;
  const known = new Set(first.signatures.map(signerText));
  const more = second.signatures.filter((each) => !known.has(signerText(each)));
  return { ...one, note: formatNote(first.text, [...first.signatures, ...more]) };
}

function keysOf(dataDir: string): KeyHistory | undefined {
  try {
    return readHistory(dataDir);
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    if (error.reason === 'no-log') return undefined;
    throw damaged(error.message, error);
  }
}

function damaged(message: string, cause: unknown): CommandFailure {
  return new CommandFailure(`${message}; see collector verify`, EXIT.damaged, { cause });
}
