/** Data directories with the keys of a log, deleted with the test; and what a crash while they are made would leave. */
import fs from 'node:fs';
import path from 'node:path';
import { keyIdText } from '@clinical-events/protocol/verify';
import { vi } from 'vitest';
import { noteKey, verifyNote } from '../../src/tree/note-signing.js';
import { SigningKeys, type SigningKeysOptions } from '../../src/tree/signing-keys.js';
import { scratchDirectory } from '../access/scratch-keys.js';

export const ORIGIN = 'log.example/ward-7';
export const DAY = 86_400_000;
/** Any checkpoint: a signer does not read its text. */
export const TEXT = `${ORIGIN}\n1\nbjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=\n`;

export class ScratchLog {
  readonly dataDir = scratchDirectory('data');
  readonly directory: string;
  nowMs = Date.UTC(2026, 6, 31, 12);
  readonly troubles: string[] = [];
  readonly notices: string[] = [];
  readonly #options: SigningKeysOptions;

  /** With `inDataDir` the private keys are at the default place of the command. */
  constructor(inDataDir = false) {
    this.directory = inDataDir ? path.join(this.dataDir, 'signing-keys') : scratchDirectory('signing-keys');
    this.#options = {
      dataDir: this.dataDir,
      directory: this.directory,
      now: () => this.nowMs,
      onTrouble: (what, error) => this.troubles.push(`${what}: ${String(error)}`),
      onNotice: (message) => this.notices.push(message),
    };
  }

  start(origin = ORIGIN): SigningKeys {
    return SigningKeys.openOrCreate({ ...this.#options, origin: () => origin });
  }

  open(): SigningKeys {
    return SigningKeys.open(this.#options);
  }

  rotate(overlapMs: number, now = () => this.nowMs) {
    return SigningKeys.rotate({ dataDir: this.dataDir, directory: this.directory, overlapMs, now });
  }

  /** The names in the directory of the private keys. */
  keyFiles(): string[] {
    return fs.existsSync(this.directory) ? fs.readdirSync(this.directory).sort() : [];
  }

  get originFile(): string {
    return path.join(this.dataDir, 'checkpoints', 'origin.vkey');
  }

  noteFile(number: number): string {
    return path.join(this.dataDir, 'checkpoints', 'rotations', `000${number}.note`);
  }
}

export function keyFile(vkey: string): string {
  return `${keyIdText(noteKey(vkey).keyId)}.pem`;
}

/** The keys by which the signer signs, as verified with all of them; in the order of the chain. */
export async function signersOf(keys: SigningKeys): Promise<string[]> {
  const { text, signedBy } = verifyNote(await keys.sign(TEXT), keys.keys);
  if (text !== TEXT) throw new Error('the signer changed the text');
  return signedBy.map(({ vkey }) => vkey);
}

/** Every call that changes the keys on the disk. */
const CHANGES = [
  'mkdirSync',
  'openSync',
  'writeFileSync',
  'fsyncSync',
  'fchownSync',
  'linkSync',
  'rmSync',
] as const;

/**
 * Ends `work` at its change number `last`, as a crash would: neither that change nor any after it is made, not even
 * what would clean up.
 * @returns whether it reached that change.
 */
export function crashAt(last: number, work: () => unknown): boolean {
  let made = 0;
  const spies = CHANGES.map((name) => {
    const real: (...args: never[]) => unknown = fs[name];
    return vi.spyOn(fs, name).mockImplementation(((...args: never[]) => {
      if (made >= last) throw new Error('crashed');
      made++;
      return real(...args);
    }) as never);
  });
  try {
    work();
    return false;
  } catch (error) {
    if (error instanceof Error && error.message === 'crashed') return true;
    throw error;
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
