/** The keys by which `collector verify` believes checkpoints, and how they follow from each other. */
import fs from 'node:fs';
import { KeyMalformed } from '@clinical-events/protocol/verify';
import { NOTE_ED25519, type NoteKey, keyChain, noteKey } from '../../tree/note-signing.js';
import { finding, type FindingList } from '../../store/findings.js';
import { messageOf } from '../../system-code.js';
import {
  SigningKeyFault,
  hasHistory,
  originKeyPath,
  readHistory,
  rotationPaths,
} from '../../tree/key-files.js';
import { usage } from '../exit-codes.js';
import { printable } from '../terminal.js';
import { readNote } from './signed-notes.js';

/** The keys by which checkpoints are believed. */
export interface LogKeys {
  readonly from: 'data-dir' | 'given';
  readonly keys: readonly NoteKey[];
  /** Keys of the log from before those that were given. */
  readonly earlier: readonly NoteKey[];
}

interface GivenKeys {
  /** Verifier keys. */
  readonly keys: readonly string[];
  /** Rotation notes, besides those of the data directory. */
  readonly rotations?: readonly string[];
}

/** A verifier key of a log. @throws KeyMalformed. */
export function logKey(vkey: string): NoteKey {
  const key = noteKey(vkey);
  if (key.type !== NOTE_ED25519)
    throw new KeyMalformed('it is the key of a witness, and no log signs with it');
  return key;
}

/**
 * The keys that the data directory has, or when any are given, those and the ones that they have handed over to.
 * @param newest checkpoint of the data directory.
 * @throws CommandFailure when keys were given and all are of other logs.
 */
export function keysOf(
  dataDir: string,
  newest: string | undefined,
  { keys: given, rotations: givenNotes = [] }: GivenKeys,
  findings: FindingList,
): LogKeys {
  const ofDirectory = directoryKeys(dataDir, findings);
  const trusted = ofThisLog(given.map(logKey), [ofDirectory[0]?.name, originIn(newest)], findings);
  const notes = rotationPaths(dataDir).map((file) => fs.readFileSync(file, 'utf8'));
  // Those of the directory have been judged; here they are only followed as long as they lead from key to key.
  const rotations = [...givenNotes, ...notes];
  const known = followed(ofDirectory, rotations);
  const keys = trusted.length === 0 ? known : followed(trusted, rotations);
  findings.add(...refusedRotations(givenNotes, keys));
  if (trusted.length === 0) return { from: 'data-dir', keys, earlier: [] };
  const first = known.findIndex(({ vkey }) => given.includes(vkey));
  return { from: 'given', keys, earlier: known.slice(0, Math.max(0, first)) };
}

/** @param origins what names the log of the directory, where it can be read. */
function ofThisLog(
  given: readonly NoteKey[],
  origins: readonly (string | undefined)[],
  findings: FindingList,
): readonly NoteKey[] {
  const known = origins.filter((origin) => origin !== undefined);
  const [origin] = known;
  if (origin === undefined) return given;
  const own = given.filter(({ name }) => known.includes(name));
  const others = new Set(given.filter((key) => !own.includes(key)).map(({ name }) => name));
  const [other] = others;
  if (other !== undefined && own.length === 0) {
    throw usage(
      `--key: the key is of the log ${printable(other)}, and this directory is ${printable(origin)}`,
    );
  }
  for (const name of others) findings.add(finding('key_of_another_log', {}, name));
  return own;
}

function originIn(note = ''): string | undefined {
  const read = readNote(note);
  return typeof read === 'string' ? undefined : read.checkpoint?.origin;
}

/** Up to the first that does not follow from the one before. */
function directoryKeys(dataDir: string, findings: FindingList): readonly NoteKey[] {
  try {
    return readHistory(dataDir).keys;
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    if (error.reason === 'no-log') return [];
    const file = 'checkpoints/origin.vkey';
    if (!hasHistory(dataDir)) {
      findings.add(finding('first_key_missing', { file }, file));
      return [];
    }
    findings.add(finding('keys_broken', { file }, error.message));
    try {
      return [logKey(fs.readFileSync(originKeyPath(dataDir), 'utf8').trimEnd())];
    } catch {
      return [];
    }
  }
}

/** The keys, and those that they have handed over to. Notes that hand over nothing are ignored. */
function followed(from: readonly NoteKey[], rotations: readonly string[]): readonly NoteKey[] {
  const keys = [...from];
  // Grows while it is iterated.
  for (const { vkey } of keys) {
    for (const note of rotations) {
      if (oldKeyIn(note) !== vkey) continue;
      const next = successor(vkey, note);
      if (typeof next !== 'string' && !keys.some((key) => key.vkey === next.vkey)) keys.push(next);
    }
  }
  return keys;
}

/** Given notes that are no rotation, or hand over a believed key without the signatures of both. */
function refusedRotations(given: readonly string[], keys: readonly NoteKey[]) {
  return given.flatMap((note, i) => {
    const from = oldKeyIn(note);
    const known = keys.find(({ vkey }) => vkey === from);
    if (from !== undefined && known === undefined) return [];
    const next = known === undefined ? 'it is not a rotation note' : successor(known.vkey, note);
    return typeof next === 'string' ? [finding('rotation_unfit', {}, i + 1, next)] : [];
  });
}

function oldKeyIn(note: string): string | undefined {
  const read = readNote(note);
  return typeof read === 'string' ? undefined : read.rotation?.oldKey;
}

/** The key that this one hands over to, or why it does not. */
function successor(vkey: string, note: string): NoteKey | string {
  try {
    return keyChain(vkey, [note]).current;
  } catch (error) {
    return messageOf(error).replace(/^rotation note 1: /, '');
  }
}
