/** The keys that `collector verify` trusts, and their rotations. */
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

/** The trusted keys. */
export interface LogKeys {
  readonly from: 'data-dir' | 'given';
  readonly keys: readonly NoteKey[];
  /** Keys of the log that preceded the given ones. */
  readonly earlier: readonly NoteKey[];
}

interface GivenKeys {
  /** Verifier keys. */
  readonly keys: readonly string[];
  /** Rotation notes, in addition to those in the data directory. */
  readonly rotations?: readonly string[];
}

/** A verifier key of a log. @throws KeyMalformed */
export function logKey(vkey: string): NoteKey {
  const key = noteKey(vkey);
  if (key.type !== NOTE_ED25519)
    throw new KeyMalformed('it is the key of a witness, which no log signs with');
  return key;
}

/**
 * The keys in the data directory or, if any are given, those and their successors.
 * @param newest checkpoint of the data directory.
 * @throws CommandFailure if all given keys belong to other logs.
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
  // The directory's notes have been checked; here they are followed only while they link keys.
  const rotations = [...givenNotes, ...notes];
  const known = followed(ofDirectory, rotations);
  const keys = trusted.length === 0 ? known : followed(trusted, rotations);
  findings.add(...refusedRotations(givenNotes, keys));
  if (trusted.length === 0) return { from: 'data-dir', keys, earlier: [] };
  const first = known.findIndex(({ vkey }) => given.includes(vkey));
  return { from: 'given', keys, earlier: known.slice(0, Math.max(0, first)) };
}

/** @param origins names of the directory's log, where readable. */
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

/** The keys up to the first that does not follow from its predecessor. */
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

/** The keys and their successors. Notes that do not extend the chain are ignored. */
function followed(from: readonly NoteKey[], rotations: readonly string[]): readonly NoteKey[] {
  const keys = [...from];
  // Grows during the iteration.
  for (const { vkey } of keys) {
    for (const note of rotations) {
      if (oldKeyIn(note) !== vkey) continue;
      const next = successor(vkey, note);
      if (typeof next !== 'string' && !keys.some((key) => key.vkey === next.vkey)) keys.push(next);
    }
  }
  return keys;
}

/** Given notes that are not rotations, or that rotate a trusted key without both signatures. */
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

/** The successor of the key, or why there is none. */
function successor(vkey: string, note: string): NoteKey | string {
  try {
    return keyChain(vkey, [note]).current;
  } catch (error) {
    return messageOf(error).replace(/^rotation note 1: /, '');
  }
}
