/** The checkpoints in a data directory that something can be built on: of this log, and signed by a key of it. */
import fs from 'node:fs';
import path from 'node:path';
import {
  formatNote,
  keyIdText,
  parseCheckpoint,
  parseNote,
  type Checkpoint,
  type NoteSignature,
} from '@clinical-events/protocol/verify';
import { rotationMissing, unknownSigner, verifyNote } from '../../tree/note-signing.js';
import { readHistory, type KeyHistory, SigningKeyFault } from '../../tree/key-files.js';
import { checkpointDirectory } from '../../store/open-to-read.js';
import type { TreeReader } from '../../store/contract/tree.js';
import { CommandFailure, EXIT } from '../exit-codes.js';

export interface SignedCheckpoint {
  /** The signed note. */
  readonly note: string;
  readonly checkpoint: Checkpoint;
}

export interface LogCheckpoints {
  readonly history: KeyHistory;
  readonly newest: SignedCheckpoint;
}

const COSIGNED = /^cosigned-[0-9a-f]{8}$/;

/**
 * The newest checkpoint, and the keys of the log.
 * @returns undefined when nothing was signed yet.
 * @throws CommandFailure when the keys do not follow from each other, or none of them signed the checkpoint.
 */
export async function newestCheckpoint(
  dataDir: string,
  tree: TreeReader,
): Promise<LogCheckpoints | undefined> {
  // In this order: a rotation is noted before its key signs, so the keys are then at least those that signed.
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
 * The newest checkpoint that covers so many events and that a witness has cosigned, with the cosignatures of all
 * whose newest one it is.
 * @param warn is told of files that are no such checkpoint.
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
      warn(`checkpoints/${name} is passed over, it is not a checkpoint of this log: ${messageOf(error)}`);
      continue;
    }
    const { size } = found.checkpoint;
    if (size < covering || cosigners(found.note, history).length === 0) continue;
    if (newest === undefined || size > newest.checkpoint.size) newest = found;
    else if (parseNote(found.note).text === parseNote(newest.note).text) newest = merged(newest, found);
  }
  return newest;
}

/** Who besides the log has signed the note: name and key id, as a verifier key begins. Nothing of it is checked. */
export function cosigners(note: string, { keys }: Pick<KeyHistory, 'keys'>): string[] {
  const isOfLog = (signature: NoteSignature) =>
    keys.some(({ name, keyId }) => name === signature.name && keyId === signature.keyId);
  return parseNote(note)
    .signatures.filter((each) => !isOfLog(each))
    .map(signerText);
}

function signerText({ name, keyId }: NoteSignature): string {
  return `${name}+${keyIdText(keyId)}`;
}

/**
 * How many entries the newest checkpoint says that there are; 0 when there is none that can be read. Nothing of it is
 * verified: for a first look, before the log is read.
 */
export async function claimedSize(tree: TreeReader): Promise<number> {
  const note = await tree.head();
  try {
    return note === undefined ? 0 : parseCheckpoint(parseNote(note).text).size;
  } catch {
    return 0;
  }
}

/**
 * The end of the log looks the same where the disk has lost it; a checkpoint knows how far it went.
 * @param claimed what {@link claimedSize} said before the log was read.
 * @throws CommandFailure when fewer entries can be read.
 */
export function assertReaches(entries: number, claimed: number): void {
  if (entries >= claimed) return;
  throw new CommandFailure(
    `the log can be read up to entry ${entries}, and a checkpoint was signed over ${claimed} entries; see collector verify`,
    EXIT.damaged,
  );
}

/** @throws when the note is not one of this log, in words that follow a colon. */
export function checkpointIn(
  note: string,
  { keys, origin }: Pick<KeyHistory, 'keys' | 'origin'>,
): Checkpoint {
  const checkpoint = parseCheckpoint(verifyNote(note, keys).text);
  if (checkpoint.origin !== origin) throw new Error(`it is of ${checkpoint.origin}`);
  const unknown = unknownSigner(note, keys);
  if (unknown !== undefined) throw new Error(rotationMissing(unknown));
  return checkpoint;
}

/** Two notes of one text, with the signatures of both. */
function merged(one: SignedCheckpoint, other: SignedCheckpoint): SignedCheckpoint {
  const { text, signatures } = parseNote(one.note);
  const there = new Set(signatures.map(signerText));
  const more = parseNote(other.note).signatures.filter((each) => !there.has(signerText(each)));
  return { ...one, note: formatNote(text, [...signatures, ...more]) };
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
