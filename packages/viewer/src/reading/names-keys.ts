/**
 * The keys of names in the viewer's own catalogue, one file each. There are two files only while a key is
 * being replaced; a start with two files completes the replacement.
 */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { createDurably, nodeFiles } from '@clinical-events/collector/files';
import { removeOverwritten } from '@clinical-events/collector/privacy/key-files';
import { SyntheticIv } from '@clinical-events/collector/privacy/name-cipher';

const KEY_BYTES = 32;
const FILE = /^(\d{10})\.key$/;
const DRAFT = /^\d{10}\.key\.[0-9a-f]+\.tmp$/;

export class NamesKeys {
  readonly #directory: string;

  constructor(stateDir: string) {
    this.#directory = path.join(stateDir, 'names-keys');
  }

  /** The newest key first. A file that holds no key counts as missing. */
  ciphers(): SyntheticIv[] {
    return this.#numbers()
      .reverse()
      .flatMap((number) => {
        const key = Buffer.from(fs.readFileSync(this.#file(number), 'latin1').trim(), 'base64');
        return key.length === KEY_BYTES ? [new SyntheticIv(key, number)] : [];
      });
  }

  /** Makes a key that is newer than all others, durably. */
  add(): void {
    nodeFiles.makeDirectory(this.#directory);
    const number = (this.#numbers().at(-1) ?? 0) + 1;
    createDurably(this.#file(number), `${randomBytes(KEY_BYTES).toString('base64')}\n`);
  }

  /** On return only the newest key remains; the others are overwritten and removed. */
  removeOlder(): void {
    for (const number of this.#numbers().slice(0, -1)) removeOverwritten(nodeFiles, this.#file(number));
    for (const name of this.#names().filter((each) => DRAFT.test(each)))
      removeOverwritten(nodeFiles, path.join(this.#directory, name));
  }

  #file(number: number): string {
    return path.join(this.#directory, `${String(number).padStart(10, '0')}.key`);
  }

  #names(): string[] {
    return fs.existsSync(this.#directory) ? fs.readdirSync(this.#directory).sort() : [];
  }

  /** The oldest first. */
  #numbers(): number[] {
    return this.#names().flatMap((name) => FILE.exec(name)?.slice(1).map(Number) ?? []);
  }
}
