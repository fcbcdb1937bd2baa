/**
 * The public half of the log's keys, as its data directory tells it:
 *
 *   checkpoints/origin.vkey             the verifier key that the log began with; its name is the log's origin
 *   checkpoints/rotations/0001.note …   each hands on from one key to the next, signed by both
 *
 * None of it is secret, none is ever changed or removed, and anyone who holds the first key can follow to the last.
 */
import fs from 'node:fs';
import path from 'node:path';
import {
  formatCheckpoint,
  formatVerifierKey,
  parseNote,
  parseRotation,
  parseVerifierKey,
} from '@clinical-events/protocol/verify';
import { keyChain } from '../integrity/key-chain.js';
import { NOTE_ED25519, type NoteKey } from '../integrity/note-signing.js';
import { systemCode } from '../system-code.js';
import { SigningKeyFault, createDurably, makeDirectory } from './private-keys.js';

const NOTE = /^\d{4}\.note$/;
const MOST_ROTATIONS = 9999;

export interface KeyHistory {
  readonly origin: string;
  /** In the order in which they took over. */
  readonly keys: readonly NoteKey[];
  /** The last of the keys. */
  readonly current: NoteKey;
  /** Of each key but the last, the instant until which it signs too: milliseconds since 1970 UTC. */
  readonly until: readonly number[];
  /** The text of `origin.vkey`, and of each rotation note. */
  readonly first: string;
  readonly rotations: readonly string[];
}

export function originKeyPath(dataDir: string): string {
  return path.join(dataDir, 'checkpoints', 'origin.vkey');
}

export function rotationDirectory(dataDir: string): string {
  return path.join(dataDir, 'checkpoints', 'rotations');
}

/** Where the note of the `number`th rotation is, or goes; the first is 1. */
export function rotationPath(dataDir: string, number: number): string {
  if (number > MOST_ROTATIONS) throw new RangeError(`a log has at most ${MOST_ROTATIONS} rotations`);
  return path.join(rotationDirectory(dataDir), `${String(number).padStart(4, '0')}.note`);
}

function namesIn(directory: string): string[] {
  try {
    return fs.readdirSync(directory).sort();
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Paths of the rotation notes in order. Cheap enough for every checkpoint. */
export function rotationPaths(dataDir: string): string[] {
  const directory = rotationDirectory(dataDir);
  return namesIn(directory)
    .filter((name) => NOTE.test(name))
    .map((name) => path.join(directory, name));
}

/** Whether the log has its first key yet. */
export function hasHistory(dataDir: string): boolean {
  return fs.statSync(originKeyPath(dataDir), { throwIfNoEntry: false }) !== undefined;
}

/**
 * A name that is wrong could never be corrected: it is part of every checkpoint.
 * @throws RangeError when a log cannot have the name: empty, with a space, a plus or a control character in it, or the
 *   first line of a rotation note.
 */
export function checkOrigin(origin: string): void {
  const nothing = new Uint8Array(32);
  try {
    formatCheckpoint({ origin, size: 0, root: nothing });
    parseVerifierKey(formatVerifierKey({ name: origin, keyId: 0, type: NOTE_ED25519, publicKey: nothing }));
  } catch (cause) {
    throw new RangeError(`${JSON.stringify(origin)} cannot be the name of a log`, { cause });
  }
}

/**
 * Makes `vkey` the key that the log begins with, durably on return.
 * @throws SigningKeyFault when the log did begin before and only lost its first key: with another one, none of the
 *   checkpoints given out could be verified any more.
 */
export function beginHistory(dataDir: string, vkey: string): void {
  assertNotBegun(dataDir);
  const file = originKeyPath(dataDir);
  makeDirectory(path.dirname(file));
  createDurably(file, `${vkey}\n`);
}

/** @throws SigningKeyFault when the log has no first key although something was signed for it. */
export function assertNotBegun(dataDir: string): void {
  const file = originKeyPath(dataDir);
  const signed = namesIn(path.dirname(file)).find(
    (name) => name === 'latest' || name.endsWith('.checkpoint'),
  );
  const witness = signed === undefined ? rotationPaths(dataDir)[0] : path.join(path.dirname(file), signed);
  if (witness === undefined) return;
  throw new SigningKeyFault(
    'broken',
    `${file} is not there, but ${witness} is: put the verifier key back that the log began with`,
  );
}

/**
 * Reads and verifies the whole chain of keys.
 * @throws SigningKeyFault `no-log` when there is none, `broken` when it does not hold, naming the note.
 */
export function readHistory(dataDir: string): KeyHistory {
  const file = originKeyPath(dataDir);
  let first: string;
  try {
    first = fs.readFileSync(file, 'utf8').trimEnd();
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    assertNotBegun(dataDir);
    throw new SigningKeyFault('no-log', `there is no log in ${dataDir} yet`);
  }
  const paths = rotationPaths(dataDir);
  const astray = paths.find((each, index) => each !== rotationPath(dataDir, index + 1));
  if (astray !== undefined) {
    throw new SigningKeyFault('broken', `${astray} is there, but not each rotation note before it`);
  }
  const rotations = paths.map((each) => fs.readFileSync(each, 'utf8'));
  return followHistory(dataDir, first, rotations);
}

/** @throws SigningKeyFault `broken` */
export function followHistory(dataDir: string, first: string, rotations: readonly string[]): KeyHistory {
  try {
    const { keys, current } = keyChain(first, rotations);
    return { origin: current.name, keys, current, until: untilOf(rotations), first, rotations };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SigningKeyFault(
      'broken',
      `the keys in ${path.join(dataDir, 'checkpoints')} do not follow from each other: ${reason}`,
    );
  }
}

/** Only the newest two keys ever sign: a rotation without an overlap also ends the overlap of the one before. */
function untilOf(rotations: readonly string[]): number[] {
  const until = rotations.map((note) => Date.parse(parseRotation(parseNote(note).text).until));
  for (let at = until.length - 2; at >= 0; at--) {
    until[at] = Math.min(until[at] ?? 0, until[at + 1] ?? 0);
  }
  return until;
}
