/**
 * The private half of the log's keys: files `<key id>.pem` (PKCS#8 PEM, Ed25519, mode 0600) in a directory that may be
 * anywhere, away from the data and its back-ups for one.
 *
 * A key id (C2SP signed-note) is a hash of public key and origin. So a file tells whether it was made for this log: one
 * whose name is no key id under this log's origin belongs to another log that shares the directory, and is left alone.
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

/** The program that signs, by `--signing-keys command:PROGRAM`; undefined where a directory holds the keys. */
export function signingProgram(signingKeys: string): string | undefined {
  return signingKeys.startsWith(COMMAND) ? signingKeys.slice(COMMAND.length) : undefined;
}

/** Where files of keys are; beside a program that is the key of the seals (shared-keys.ts). */
export function signingDirectory({ dataDir, signingKeys }: KeyPlace): string {
  return signingProgram(signingKeys) === undefined ? signingKeys : path.join(dataDir, 'signing-keys');
}

/** With what a crash may leave of its making. */
const KEY_FILE = /^([0-9a-f]{8})\.pem(\.[0-9a-f]{8}\.tmp)?$/;

/** A key that can sign, wherever its private half is. */
export interface SigningKey {
  readonly key: NoteKey;
  /** The 64 bytes of a signature by Ed25519. */
  readonly sign: (text: string) => Uint8Array | Promise<Uint8Array>;
}

/** What holds the private halves of keys: a directory of files, or a program (key-command.ts). */
export interface KeyHolder {
  /** The key with which a log of this name begins. Of a directory it is durable on return. */
  first(origin: string): SigningKey;
  /** @throws SigningKeyFault or SigningCommandUnfit when it does not hold this very key. */
  read(key: NoteKey): SigningKey;
  /** What lets others sign with the key; undefined in most cases. */
  exposureOf(key: NoteKey): string | undefined;
  /** Removes the private key. @returns the paths of what was removed; durably gone on return. */
  destroy(key: NoteKey): string[];
}

interface FileKey extends SigningKey {
  readonly sign: (text: string) => Uint8Array;
}

function fileKey(key: NoteKey, privateKey: KeyObject): FileKey {
  return { key, sign: (text) => sign(null, Buffer.from(text), privateKey) };
}

/** @returns undefined for anything but an Ed25519 key; what the text was must not get into an error. */
function privateKeyIn(pem: string): KeyObject | undefined {
  try {
    const key = createPrivateKey({ key: pem, format: 'pem' });
    return key.asymmetricKeyType === 'ed25519' ? key : undefined;
  } catch {
    return undefined;
  }
}

/** @returns undefined when it cannot be read, as when it is gone by now or belongs to another user. */
function textOf(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

export class PrivateKeys implements KeyHolder {
  constructor(private readonly directory: string) {}

  /** Where the private key is, or would be. */
  pathOf(key: NoteKey): string {
    return path.join(this.directory, `${keyIdText(key.keyId)}.pem`);
  }

  /**
   * Makes a key for the log of this name. On return its file is durable.
   * @param before whose file's owner becomes the owner of the new file.
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
   * Takes the private key that an earlier first start made and did not come to name. Its file's name fits this origin
   * only.
   */
  first(origin: string): FileKey {
    return this.#only(origin) ?? this.make(origin);
  }

  /** @throws SigningKeyFault `key-missing`, or `broken` when the file does not hold this very key. */
  read(key: NoteKey): FileKey {
    const file = this.pathOf(key);
    let pem: string;
    try {
      pem = fs.readFileSync(file, 'utf8');
    } catch (error) {
      const code = systemCode(error);
      if (code === 'EISDIR')
        throw new SigningKeyFault('broken', `${file} is a directory, and must be a file`);
      if (code !== 'ENOENT') throw error;
      throw new SigningKeyFault(
        'key-missing',
        `${file} is not there: it holds the private key of ${key.vkey}`,
      );
    }
    const privateKey = privateKeyIn(pem);
    if (privateKey === undefined) {
      throw new SigningKeyFault('broken', `${file} is not the PKCS#8 PEM of an Ed25519 private key`);
    }
    if (!createPublicKey(privateKey).equals(key.publicKey)) {
      throw new SigningKeyFault('broken', `${file} holds another private key than that of ${key.vkey}`);
    }
    return fileKey(key, privateKey);
  }

  /** As OpenSSH does of its keys, but only reported: a secret that is mounted for a group can be meant. */
  exposureOf(key: NoteKey): string | undefined {
    const file = this.pathOf(key);
    // The modes that Node tells on Windows are made up from one read-only bit.
    if (process.platform === 'win32' || (fs.statSync(file).mode & 0o077) === 0) return undefined;
    return `${file} can be read by other users; anyone who has it can sign in the name of this log: chmod 600`;
  }

  /**
   * The one private key that is there for the log of this name; that it is there is durable on return.
   * @returns undefined when there is none, or more than one, which cannot be told apart.
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
   * Removes the private key, with what a crash may have left beside it. Its bytes are not written over: on a
   * copy-on-write file system or an SSD that reaches them no more than removing does.
   * @returns the paths of what was removed; durably gone on return.
   */
  destroy(key: NoteKey): string[] {
    const files = this.#files().filter(([, keyId]) => keyId === keyIdText(key.keyId));
    for (const [file] of files) fs.rmSync(file, { force: true });
    if (files.length > 0) nodeFiles.syncDirectory(this.directory);
    return files.map(([file]) => file);
  }

  /** Whether the directory is there: where it is not, no key was ever in it. */
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

/* Why the keys of the log cannot be used, or not be changed. */

/**
 * `no-log`: nothing was ever signed here. `key-missing`: a private key is not where it should be. `broken`: what is
 * there contradicts itself. `overlapping`: the overlap of an earlier rotation lasts. `overtaken`: another rotation came
 * first. In the last two nothing was changed.
 */
export type SigningKeyFaultReason =
  'no-log' | 'key-missing' | 'seal-missing' | 'broken' | 'overlapping' | 'overtaken';

/**
 * The message is for the operator: one line that names the file, and never holds anything of a private key. There is no
 * cause, which would say the same once more.
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
 * The public half of the log's keys, as its data directory tells it:
 *
 *   checkpoints/origin.vkey             the verifier key that the log began with; its name is the log's origin
 *   checkpoints/rotations/0001.note …   each hands on from one key to the next, signed by both
 *
 * None of it is secret, none is ever changed or removed, and anyone who holds the first key can follow to the last.
 */

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

/** Names in order; none where there is no such directory. */
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
  nodeFiles.makeDirectory(path.dirname(file));
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
 * @throws SigningKeyFault `no-log` without one, `broken` when it does not hold, naming the note.
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
    const { keys, current, until } = keyChain(first, rotations);
    // Only the newest two keys ever sign: a rotation without an overlap also ends the overlap of the one before.
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

/* Whether the key that signs the checkpoints outlives the disk of the data directory. */

export interface KeyPlace {
  readonly dataDir: string;
  /** As the option has it. */
  readonly signingKeys: string;
}

/** Whether the private keys are not on that disk; undefined while there are none. Asks the file system that they are on. */
export function liesElsewhere({ dataDir, signingKeys }: KeyPlace): boolean | undefined {
  if (signingProgram(signingKeys) !== undefined) return true;
  if (!exists(signingKeys)) return undefined;
  return fs.statSync(signingKeys).dev !== fs.statSync(dataDir).dev;
}

/**
 * Whether the next start would miss the file of the current key on that disk, or what tells which key it is.
 * @throws the system's error when that cannot be known.
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

/** For a new signing key on the disk of the data directory; empty when it lies elsewhere. */
export function escrowNotice(place: KeyPlace): string {
  if (liesElsewhere(place) !== false) return '';
  return `
The key that signs the log is stored only on this disk, in ${place.signingKeys}. Without it the log cannot be continued.
Copy it to a safe place.
`;
}
