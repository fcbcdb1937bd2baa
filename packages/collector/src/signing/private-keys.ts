/**
 * The private half of the log's keys: files `<key id>.pem` (PKCS#8 PEM, Ed25519, mode 0600) in a directory that may be
 * anywhere, away from the data and its back-ups for one.
 *
 * A key id (C2SP signed-note) is a hash of public key and origin. So a file tells whether it was made for this log: one
 * whose name is no key id under this log's origin belongs to another log that shares the directory, and is left alone.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { keyIdText } from '@clinical-events/protocol/verify';
import { type NoteKey, noteKey, verifierKeyOf } from '../integrity/note-signing.js';
import { systemCode } from '../system-code.js';
import { createDurably, makeDirectory, syncDirectory } from './durable-file.js';
import { SigningKeyFault } from './signing-key-fault.js';

/** With what a crash may leave of its making. */
const KEY_FILE = /^([0-9a-f]{8})\.pem(\.[0-9a-f]{8}\.tmp)?$/;

/** A key with both halves. */
export interface SigningKey {
  readonly key: NoteKey;
  readonly privateKey: KeyObject;
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

export class PrivateKeys {
  constructor(private readonly directory: string) {}

  /** Where the private key is, or would be. */
  pathOf(key: NoteKey): string {
    return path.join(this.directory, `${keyIdText(key.keyId)}.pem`);
  }

  /**
   * Makes a key for the log of this name. On return its file is durable.
   * @param before whose file's owner becomes the owner of the new file.
   */
  make(origin: string, before?: NoteKey): SigningKey {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const key = noteKey(verifierKeyOf(origin, publicKey));
    makeDirectory(this.directory);
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
    createDurably(this.pathOf(key), String(pem), before && this.pathOf(before));
    return { key, privateKey };
  }

  /** @throws SigningKeyFault `key-missing`, or `broken` when the file does not hold this very key. */
  read(key: NoteKey): SigningKey {
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
    return { key, privateKey };
  }

  /** As OpenSSH does of its keys, but only told: a secret that is mounted for a group can be meant. */
  exposureOf(key: NoteKey): string | undefined {
    const file = this.pathOf(key);
    // The modes that Node tells on Windows are made up from one read-only bit.
    if (process.platform === 'win32' || (fs.statSync(file).mode & 0o077) === 0) return undefined;
    return `${file} can be read by other users; whoever has it can sign in the name of this log: chmod 600`;
  }

  /**
   * The one private key that is there for the log of this name; that it is there is durable on return.
   * @returns undefined when there is none, or more than one, none of which can be told from the others.
   */
  only(origin: string): SigningKey | undefined {
    const made = this.#files().flatMap(([file, keyId]): SigningKey[] => {
      const privateKey = privateKeyIn(textOf(file) ?? '');
      if (privateKey === undefined) return [];
      const key = noteKey(verifierKeyOf(origin, createPublicKey(privateKey)));
      return keyIdText(key.keyId) === keyId && file === this.pathOf(key) ? [{ key, privateKey }] : [];
    });
    if (made.length === 1) syncDirectory(this.directory);
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
    if (files.length > 0) syncDirectory(this.directory);
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
