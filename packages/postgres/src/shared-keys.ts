/**
 * The public keys of a log that several collectors sign: its first key, and each note that hands on to the next. They
 * stand in the store, where each collector follows them; its own directory has a copy, as that of a log of one host has
 * (the collector's key-files.ts). The private key never goes there: each collector is given it, and with it the key that they all seal
 * their batches with.
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

/** As the store has them: they are never changed. */
export interface SharedKeys {
  /** The first key, and each note that hands on to the next. */
  texts(): Promise<string[]>;
  /** Whether this process may add one. */
  mayAdd(): Promise<boolean>;
  /** On return the text has this place, durably. @returns false when another text has it. */
  add(place: number, text: string): Promise<boolean>;
  /**
   * @param first has the log sealed with that key, durably, when it has none yet.
   * @returns the id of the key that the log is sealed with; undefined when it has none.
   */
  sealKeyId(first?: string): Promise<string | undefined>;
}

/** What the collector sees of them. */
export function publicKeysOf(shared: SharedKeys): SharedPublicKeys {
  return {
    mayAdd: () => shared.mayAdd(),
    pull: (dataDir) => pullKeys(dataDir, shared),
    push: (dataDir) => pushKeys(dataDir, shared),
    signer: (own, dataDir) => new SharedSigner(own, dataDir, shared),
  };
}

/**
 * On return the directory has all that the store has.
 * @throws SigningKeyFault `broken` when it has something else.
 */
async function pullKeys(dataDir: string, shared: SharedKeys): Promise<void> {
  const texts = await shared.texts();
  for (const [place, text] of texts.entries()) {
    const file = pathOf(dataDir, place);
    if (fs.existsSync(file)) {
      if (fs.readFileSync(file, 'utf8') === text) continue;
      throw new SigningKeyFault('broken', `${file} is not what the log in the database has in its place`);
    }
    nodeFiles.makeDirectory(path.dirname(file));
    createDurably(file, text);
  }
}

/**
 * On return the store has all that the directory has.
 * @throws SigningKeyFault `overtaken` when another collector was first with something else.
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
      'another collector was first: the log has a signing key by now, which this one needs in --signing-keys',
    );
  }
}

const SEAL_KEY_BYTES = 32;

/** Signs with keys that another collector may rotate. Only one that has the newest key signs. */
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
    // A rotation that was made here is known to the others before its key signs.
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
 * On return the key that the log is sealed with lies in the directory of the signing keys. The first collector of a log
 * makes it; the others are given it. Where it was lost and is made anew, its file says of how many entries.
 * @param entries of the log, by now. @throws SigningKeyFault `seal-missing` when the log is sealed with a key that is not there.
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
      // Another collector that has the same directory.
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
    `${file} ${key === undefined ? 'is not there' : 'holds another key'}: it is what the collectors of this log seal ` +
      'their batches with',
  );
}

function pathOf(dataDir: string, place: number): string {
  return place === 0 ? originKeyPath(dataDir) : rotationPath(dataDir, place);
}
