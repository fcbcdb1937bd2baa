/** A program that signs, one for each test, deleted with it. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import { scratchDirectory } from '../access/scratch-keys.js';

const PROGRAM = new URL('./signing-program.mjs', import.meta.url);

interface Behaviour {
  readonly key?: KeyObject;
  readonly misbehaviour?: string;
  readonly on?: 'public-key' | 'sign';
}

export class ScratchProgram {
  readonly key = generateKeyPairSync('ed25519').privateKey;

  constructor(readonly path = scratchDirectory('sign.mjs')) {
    // With this Node, and not the first in PATH.
    const source = fs.readFileSync(PROGRAM, 'utf8').replace(/^#!.*/, `#!${process.execPath}`);
    fs.writeFileSync(path, source, { mode: 0o700 });
    this.behave({});
  }

  behave({ key = this.key, ...how }: Behaviour): void {
    const pem = key.export({ type: 'pkcs8', format: 'pem' });
    fs.writeFileSync(`${this.path}.json`, JSON.stringify({ pem, ...how }));
  }
}
