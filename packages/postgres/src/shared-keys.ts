/**
 * The public keys of a log that several collectors sign: its first key and each rotation note. Each collector
 * reads them from the store, and its data directory has a copy (the collector's key-files.ts). The private
 * key is never in the store: the operator gives it to each collector, with the key that seals batches.
 */
import { createSecretKey, hash, type KeyObject, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { CheckpointSigner, NoteKey } from '@clinical-events/collector/tree/note-signing';
import type { SharedPublicKeys } from '@clinical-events/collector/store/contract/keys';
import { createDurably, nodeFiles } from '@clinical-events/collector/files';
import { systemCode } from '@clinical-events/collector/system-code';
import {
  hasHistory,
  originKeyPath,
  readHistory,
  rotationPath,
  rotationPaths,
  SigningKeyFault,
} from '@clinical-events/collector/tree/key-files';

/** The public keys in the store, which never change. */
export interface SharedKeys {
  /** The first key and each rotation note. */
  texts(): Promise<string[]>;
  /** Whether this process may add one. */
  mayAdd(): Promise<boolean>;
  /** On return a text durably has this place. @returns false if the place has another text. */
  add(place: number, text: string): Promise<boolean>;
  /**
   * @param first becomes the id of the log's seal key, durably, if it has none.
   * @returns the id of the seal key; undefined if there is none.
   */
  sealKeyId(first?: string): Promise<string | undefined>;
}

/** The interface of these keys to the collector. */
export function publicKeysOf(shared: SharedKeys): SharedPublicKeys {
  return {
    mayAdd: () => shared.mayAdd(),
    pull: (dataDir) => pullKeys(dataDir, shared),
    push: (dataDir) => pushKeys(dataDir, shared),
    signer: (own, dataDir) => new SharedSigner(own, dataDir, shared),
  };
}

/**
 * On return the directory has all public keys of the store.
 * @throws SigningKeyFault `broken` if a file differs.
 */
async function pullKeys(dataDir: string, shared: SharedKeys): Promise<void> {
  const texts = await shared.texts();
  for (const [place, text] of texts.entries()) {
    const file = pathOf(dataDir, place);
    if (fs.existsSync(file)) {
      if (fs.readFileSync(file, 'utf8') === text) continue;
      throw new SigningKeyFault('broken', `${file} differs from the public key in the database`);
    }
    nodeFiles.makeDirectory(path.dirname(file));
    createDurably(file, text);
  }
}

/**
 * On return the store has all public keys of the directory.
 * @throws SigningKeyFault `overtaken` if another collector was first with another key.
 */
async function pushKeys(dataDir: string, shared: SharedKeys): Promise<void> {
  if (!hasHistory(dataDir)) return;
  const stored = await shared.texts();
  for (let place = stored.length; place <= rotationPaths(dataDir).length; place++) {
    const file = pathOf(dataDir, place);
    if (await shared.add(place, fs.readFileSync(file, 'utf8'))) continue;
    fs.rmSync(file);
    throw new SigningKeyFault(
      'overtaken',
      'another collector made the signing key of the log first; this collector needs it in --signing-keys',
    );
  }
}

const SEAL_KEY_BYTES = 32;

/** Signs with keys that another collector may rotate. A collector without the newest key does not sign. */
class SharedSigner implements CheckpointSigner {
  #known: readonly NoteKey[];

  constructor(
    private readonly signer: CheckpointSigner,
    private readonly dataDir: string,
    private readonly shared: SharedKeys,
  ) {
    this.#known = readHistory(dataDir).keys;
  }

  get origin(): string {
    return this.signer.origin;
  }

  get keys(): readonly NoteKey[] {
    return this.#known;
  }

  async refresh(): Promise<void> {
    await pullKeys(this.dataDir, this.shared);
    await pushKeys(this.dataDir, this.shared);
    this.#known = readHistory(this.dataDir).keys;
  }

  async sign(text: string): Promise<string> {
    const note = await this.signer.sign(text);
    const own = this.signer.keys.at(-1);
    // The other collectors know a rotation before its key signs.
    if (own?.vkey !== this.#known.at(-1)?.vkey) await this.refresh();
    const newest = this.#known.at(-1);
    if (own?.vkey === newest?.vkey) return note;
    throw new SigningKeyFault(
      'key-missing',
      `the private key of ${newest?.vkey ?? ''} is not in --signing-keys`,
    );
  }
}

/**
 * Opens the seal key in the directory of the signing keys. The first collector of a log makes it; the
 * operator copies it to the others. If a key replaces a lost one, its file contains the number of entries
 * before the replacement.
 * @param entries current number of entries. @throws SigningKeyFault `seal-missing` if the log's seal key is
 *   not there.
 */
export async function openSealKey(
  directory: string,
  ledgerId: string,
  shared: SharedKeys,
  entries: number,
): Promise<{ readonly key: KeyObject; readonly lostBefore: number }> {
  const file = path.join(directory, `${ledgerId}.seal`);
  if (!fs.existsSync(file) && (await shared.sealKeyId()) === undefined) {
    nodeFiles.makeDirectory(directory);
    try {
      createDurably(file, `${randomBytes(SEAL_KEY_BYTES).toString('hex')}\n${entries}\n`);
    } catch (error) {
      // Another collector with the same directory was first.
      if (systemCode(error) !== 'EEXIST') throw error;
    }
  }
  const [text, lostBefore = '0'] = fs.existsSync(file)
    ? fs.readFileSync(file, 'latin1').trim().split('\n')
    : [];
  const key = text === undefined ? undefined : Buffer.from(text, 'hex');
  if (key?.length === SEAL_KEY_BYTES) {
    const id = hash('sha256', Buffer.concat([Buffer.from('seal key of a log\n'), key]));
    if ((await shared.sealKeyId(id)) === id)
      return { key: createSecretKey(key), lostBefore: Number(lostBefore) || 0 };
  }
  throw new SigningKeyFault(
    'seal-missing',
    `${file} ${key === undefined ? 'is missing' : 'holds another key'}: the collectors of this log seal ` +
      'their batches with it',
  );
}

function pathOf(dataDir: string, place: number): string {
  return place === 0 ? originKeyPath(dataDir) : rotationPath(dataDir, place);
}
