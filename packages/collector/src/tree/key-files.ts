/**
 * The private keys of the log: files `<key id>.pem` (PKCS#8 PEM, Ed25519, mode 0600) in a directory that
 * should be away from the data and its back-ups.
 *
 * A key id (C2SP signed-note) is a hash of public key and origin. So the name of a file shows whether it was
 * made for this log; files of other logs that share the directory are left alone.
 */
import { type KeyObject, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import {
  formatCheckpoint,
  formatVerifierKey,
  keyIdText,
  parseVerifierKey,
} from '@clinical-events/protocol/verify';
import { NOTE_ED25519, type NoteKey, keyChain, noteKey, verifierKeyOf } from './note-signing.js';
import { createDurably, exists, nodeFiles } from '../files.js';
import { messageOf, systemCode } from '../system-code.js';

const COMMAND = 'command:';

/** The program that signs, from `--signing-keys command:PROGRAM`; undefined if a directory holds the keys. */
export function signingProgram(signingKeys: string): string | undefined {
  return signingKeys.startsWith(COMMAND) ? signingKeys.slice(COMMAND.length) : undefined;
}

/**
 * The directory of key files; with a signing program it holds only the seal key (packages/postgres,
 * shared-keys.ts).
 */
export function signingDirectory({ dataDir, signingKeys }: KeyPlace): string {
  return signingProgram(signingKeys) === undefined ? signingKeys : path.join(dataDir, 'signing-keys');
}

/** Key files, and temporary files that a crash left. */
const KEY_FILE = /^([0-9a-f]{8})\.pem(\.[0-9a-f]{8}\.tmp)?$/;

/** A key that can sign, in a file or through a program. */
export interface SigningKey {
  readonly key: NoteKey;
  /** The 64 bytes of a signature by Ed25519. */
  readonly sign: (text: string) => Uint8Array | Promise<Uint8Array>;
}

/** Holds the private halves of keys: a directory of files, or a program (key-command.ts). */
export interface KeyHolder {
  /** The first key of a log with this name. A key in a file is durable on return. */
  first(origin: string): SigningKey;
  /** @throws SigningKeyFault or SigningCommandUnfit if it does not hold this key. */
  read(key: NoteKey): SigningKey;
  /** A warning if other users can sign with the key. */
  exposureOf(key: NoteKey): string | undefined;
  /** Removes the private key, durably. @returns the paths of the removed files. */
  destroy(key: NoteKey): string[];
}

interface FileKey extends SigningKey {
  readonly sign: (text: string) => Uint8Array;
}

function fileKey(key: NoteKey, privateKey: KeyObject): FileKey {
  return { key, sign: (text) => sign(null, Buffer.from(text), privateKey) };
}

/** @returns undefined unless it is an Ed25519 key. No error may contain the text. */
function privateKeyIn(pem: string): KeyObject | undefined {
  try {
    const key = createPrivateKey({ key: pem, format: 'pem' });
    return key.asymmetricKeyType === 'ed25519' ? key : undefined;
  } catch {
    return undefined;
  }
}

/** @returns undefined if the file is missing or not readable. */
function textOf(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

export class PrivateKeys implements KeyHolder {
  constructor(private readonly directory: string) {}

  /** The path of the private key. */
  pathOf(key: NoteKey): string {
    return path.join(this.directory, `${keyIdText(key.keyId)}.pem`);
  }

  /**
   * Makes a key for the log with this name. On return its file is durable.
   * @param before the owner of this key's file becomes the owner of the new file.
   */
  make(origin: string, before?: NoteKey): FileKey {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const key = noteKey(verifierKeyOf(origin, publicKey));
    nodeFiles.makeDirectory(this.directory);
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
    createDurably(this.pathOf(key), String(pem), before && this.pathOf(before));
    return fileKey(key, privateKey);
  }

  /**
   * Uses the private key that an interrupted first start made, if there is one. Its name matches only this
   * origin.
   */
  first(origin: string): FileKey {
    return this.#only(origin) ?? this.make(origin);
  }

  /** @throws SigningKeyFault `key-missing`, or `broken` if the file does not hold this key. */
  read(key: NoteKey): FileKey {
    const file = this.pathOf(key);
    let pem: string;
    try {
      pem = fs.readFileSync(file, 'utf8');
    } catch (error) {
      const code = systemCode(error);
      if (code === 'EISDIR') throw new SigningKeyFault('broken', `${file} must be a file, not a directory`);
      if (code !== 'ENOENT') throw error;
      throw new SigningKeyFault('key-missing', `${file} is missing: it holds the private key of ${key.vkey}`);
    }
    const privateKey = privateKeyIn(pem);
    if (privateKey === undefined) {
      throw new SigningKeyFault('broken', `${file} is not the PKCS#8 PEM of an Ed25519 private key`);
    }
    if (!createPublicKey(privateKey).equals(key.publicKey)) {
      throw new SigningKeyFault('broken', `${file} does not hold the private key of ${key.vkey}`);
    }
    return fileKey(key, privateKey);
  }

  /** Like OpenSSH's check, but only a warning: a secret may be mounted for a group on purpose. */
  exposureOf(key: NoteKey): string | undefined {
    const file = this.pathOf(key);
    // On Windows, Node derives the mode from one read-only bit.
    if (process.platform === 'win32' || (fs.statSync(file).mode & 0o077) === 0) return undefined;
    return `${file} can be read by other users, who can sign in the name of this log with it: chmod 600`;
  }

  /**
   * The only private key for the log with this name; its directory entry is durable on return.
   * @returns undefined if there is no such key, or more than one.
   */
  #only(origin: string): FileKey | undefined {
    const made = this.#files().flatMap(([file, keyId]): FileKey[] => {
      const privateKey = privateKeyIn(textOf(file) ?? '');
      if (privateKey === undefined) return [];
      const key = noteKey(verifierKeyOf(origin, createPublicKey(privateKey)));
      return keyIdText(key.keyId) === keyId && file === this.pathOf(key) ? [fileKey(key, privateKey)] : [];
    });
    if (made.length === 1) nodeFiles.syncDirectory(this.directory);
    return made.length === 1 ? made[0] : undefined;
  }

  /**
   * Removes the private key and temporary files of it, durably. The bytes are not overwritten: on a
   * copy-on-write file system or an SSD, overwriting would not reach them.
   * @returns the paths of the removed files.
   */
  destroy(key: NoteKey): string[] {
    const files = this.#files().filter(([, keyId]) => keyId === keyIdText(key.keyId));
    for (const [file] of files) fs.rmSync(file, { force: true });
    if (files.length > 0) nodeFiles.syncDirectory(this.directory);
    return files.map(([file]) => file);
  }

  /** Whether the directory exists; without it there are no keys. */
  isThere(): boolean {
    return fs.statSync(this.directory, { throwIfNoEntry: false }) !== undefined;
  }

  #files(): [path: string, keyId: string][] {
    if (!this.isThere()) return [];
    return fs.readdirSync(this.directory).flatMap((name): [string, string][] => {
      const keyId = KEY_FILE.exec(name)?.[1];
      return keyId === undefined ? [] : [[path.join(this.directory, name), keyId]];
    });
  }
}

/**
 * `no-log`: nothing was ever signed here. `key-missing`, `seal-missing`: the key is not in its directory.
 * `broken`: files contradict each other. `overlapping`: the overlap of an earlier rotation has not ended.
 * `overtaken`: another rotation came first. The last two leave everything unchanged.
 */
export type SigningKeyFaultReason =
  'no-log' | 'key-missing' | 'seal-missing' | 'broken' | 'overlapping' | 'overtaken';

/**
 * Thrown if the keys of the log cannot be used or changed. The message is one line, names the file, and has
 * no key material.
 */
export class SigningKeyFault extends Error {
  override name = 'SigningKeyFault';
  constructor(
    readonly reason: SigningKeyFaultReason,
    message: string,
  ) {
    super(message);
  }
}

/*
 * The public keys of the log in its data directory:
 *
 *   checkpoints/origin.vkey             the first verifier key; its name is the log's origin
 *   checkpoints/rotations/0001.note …   rotation notes: each names the next key, and both keys sign it
 *
 * These files are public and never changed or removed. A verifier can follow them from the first key to the
 * last.
 */

const NOTE = /^\d{4}\.note$/;
const MOST_ROTATIONS = 9999;

export interface KeyHistory {
  readonly origin: string;
  /** All keys, in the order of the rotations. */
  readonly keys: readonly NoteKey[];
  /** The last key. */
  readonly current: NoteKey;
  /** For each key but the last, the end of its overlap: milliseconds since 1970 UTC. */
  readonly until: readonly number[];
  /** The texts of `origin.vkey` and of each rotation note. */
  readonly first: string;
  readonly rotations: readonly string[];
}

export function originKeyPath(dataDir: string): string {
  return path.join(dataDir, 'checkpoints', 'origin.vkey');
}

export function rotationDirectory(dataDir: string): string {
  return path.join(dataDir, 'checkpoints', 'rotations');
}

/** The path of the note of a rotation; the first has number 1. */
export function rotationPath(dataDir: string, number: number): string {
  if (number > MOST_ROTATIONS) throw new RangeError(`a log has at most ${MOST_ROTATIONS} rotations`);
  return path.join(rotationDirectory(dataDir), `${String(number).padStart(4, '0')}.note`);
}

/** Sorted names; empty if there is no such directory. */
export function namesIn(directory: string): string[] {
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

/** Whether the log has its first key. */
export function hasHistory(dataDir: string): boolean {
  return fs.statSync(originKeyPath(dataDir), { throwIfNoEntry: false }) !== undefined;
}

/**
 * Checks the name of a log, which is part of every checkpoint and can never change.
 * @throws RangeError if the name is empty, contains a space, a plus or a control character, or is the first
 *   line of a rotation note.
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
 * Makes `vkey` the first key of the log, durably.
 * @throws SigningKeyFault if the log exists and only lost its first key: with another one, published
 *   checkpoints could not be verified.
 */
export function beginHistory(dataDir: string, vkey: string): void {
  assertNotBegun(dataDir);
  const file = originKeyPath(dataDir);
  nodeFiles.makeDirectory(path.dirname(file));
  createDurably(file, `${vkey}\n`);
}

/** @throws SigningKeyFault if something was signed for the log, but its first key is missing. */
export function assertNotBegun(dataDir: string): void {
  const file = originKeyPath(dataDir);
  const signed = namesIn(path.dirname(file)).find(
    (name) => name === 'latest' || name.endsWith('.checkpoint'),
  );
  const witness = signed === undefined ? rotationPaths(dataDir)[0] : path.join(path.dirname(file), signed);
  if (witness === undefined) return;
  throw new SigningKeyFault(
    'broken',
    `${file} is missing, but ${witness} exists: put back the verifier key that the log began with`,
  );
}

/**
 * Reads and verifies the whole chain of keys.
 * @throws SigningKeyFault `no-log` without a first key, `broken` with the name of the note if the chain is
 *   invalid.
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
    throw new SigningKeyFault('broken', `${astray} exists, but an earlier rotation note is missing`);
  }
  const rotations = paths.map((each) => fs.readFileSync(each, 'utf8'));
  return followHistory(dataDir, first, rotations);
}

/** @throws SigningKeyFault `broken` */
export function followHistory(dataDir: string, first: string, rotations: readonly string[]): KeyHistory {
  try {
    const { keys, current, until } = keyChain(first, rotations);
    // Only the newest two keys ever sign: a rotation without an overlap also ends the overlap of the previous
    // one.
    for (let at = until.length - 2; at >= 0; at--) {
      until[at] = Math.min(until[at] ?? 0, until[at + 1] ?? 0);
    }
    return { origin: current.name, keys, current, until, first, rotations };
  } catch (error) {
    const reason = messageOf(error);
    throw new SigningKeyFault(
      'broken',
      `the keys in ${path.join(dataDir, 'checkpoints')} do not follow from each other: ${reason}`,
    );
  }
}

export interface KeyPlace {
  readonly dataDir: string;
  /** Value of the option `--signing-keys`. */
  readonly signingKeys: string;
}

/** Whether the private keys and the data directory are on different disks; undefined without keys. */
export function liesElsewhere({ dataDir, signingKeys }: KeyPlace): boolean | undefined {
  if (signingProgram(signingKeys) !== undefined) return true;
  if (!exists(signingKeys)) return undefined;
  return fs.statSync(signingKeys).dev !== fs.statSync(dataDir).dev;
}

/**
 * Whether the next start would lack the file of the current key, or the files that name the current key.
 * @throws the system's error if that cannot be determined.
 */
export function isGone({ dataDir, signingKeys }: KeyPlace): boolean {
  let history: KeyHistory;
  try {
    history = readHistory(dataDir);
  } catch (error) {
    if (error instanceof SigningKeyFault) return true;
    throw error;
  }
  const file = new PrivateKeys(signingKeys).pathOf(history.current);
  const found = fs.statSync(file, { throwIfNoEntry: false });
  return found === undefined || !found.isFile() || found.size === 0;
}

/** The notice for a new signing key on the disk of the data directory; empty if it is on another disk. */
export function escrowNotice(place: KeyPlace): string {
  if (liesElsewhere(place) !== false) return '';
  return `
The key that signs the log is stored only on this disk, in ${place.signingKeys}.
Without it the log cannot be continued. Copy it to a safe place.
`;
}
