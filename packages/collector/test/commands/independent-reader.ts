/**
 * Reads a directory of tiles, written from C2SP tlog-tiles and RFC 6962 section 2.1 alone. Like the verifier beside it,
 * it shares no code with the reader that it checks.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { signedText } from './independent-verifier.js';

function sha256(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** The Merkle tree hash of `n` leaves, by the definition; `known` cuts it short. */
function mth(start: number, n: number, known: (start: number, n: number) => Buffer | undefined): Buffer {
  const there = known(start, n);
  if (there !== undefined) return there;
  assert(n > 1, 'a leaf is missing');
  let k = 1;
  while (k * 2 < n) k *= 2;
  return sha256(Buffer.of(1), mth(start, k, known), mth(start + k, n - k, known));
}

function split(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: bytes.length / size }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

function numbered(n: number): string {
  const [last = '', ...rest] =
    String(n)
      .padStart(Math.ceil(String(n).length / 3) * 3, '0')
      .match(/.{3}/g)
      ?.reverse() ?? [];
  return [...rest.reverse().map((digits) => `x${digits}`), last].join('/');
}

export class IndependentReader {
  readonly size: number;
  readonly root: string;

  /** @throws AssertionError when the key has not signed the checkpoint. */
  constructor(
    private readonly directory: string,
    vkey: string,
  ) {
    const [, size = '', root = ''] = signedText(this.#file('checkpoint').toString(), vkey).split('\n');
    this.size = Number(size);
    this.root = root;
  }

  /** The file names that the size needs, by the text of the standard. */
  needed(): string[] {
    const names = ['checkpoint'];
    for (let level = 0, count = this.size; count > 0; level++, count = Math.floor(count / 256)) {
      for (let n = 0; n * 256 < count; n++) {
        const name = numbered(n) + (count - n * 256 < 256 ? `.p/${count - n * 256}` : '');
        names.push(`tile/${level}/${name}`);
        if (level === 0) names.push(`tile/entries/${name}`);
      }
    }
    return names.sort();
  }

  entries(): Buffer[] {
    const entries: Buffer[] = [];
    for (const bundle of this.#all('entries')) {
      for (let at = 0; at < bundle.length; at += 2 + bundle.readUInt16BE(at)) {
        entries.push(bundle.subarray(at + 2, at + 2 + bundle.readUInt16BE(at)));
      }
    }
    assert.equal(entries.length, this.size);
    return entries;
  }

  rootFromEntries(): string {
    return this.#rootOf(this.entries().map((entry) => sha256(Buffer.of(0), entry)));
  }

  rootFromLevel0(): string {
    return this.#rootOf(this.#all('0').flatMap((tile) => split(tile, 32)));
  }

  /** From the highest hash that is there for each part of the tree. */
  rootFromTop(): string {
    const known = (start: number, n: number) => {
      for (let level = 0; 256 ** level <= n; level++) {
        if (256 ** level === n && start % n === 0) return this.#hash(level, start / n);
      }
      return undefined;
    };
    return this.size === 0 ? this.#rootOf([]) : mth(0, this.size, known).toString('base64');
  }

  #rootOf(leaves: readonly Buffer[]): string {
    if (leaves.length === 0) return sha256().toString('base64');
    return mth(0, leaves.length, (start, n) => (n === 1 ? leaves[start] : undefined)).toString('base64');
  }

  #hash(level: number, index: number): Buffer {
    const n = Math.floor(index / 256);
    const tile = this.#tile(String(level), n, Math.floor(this.size / 256 ** level));
    return tile.subarray((index % 256) * 32, (index % 256) * 32 + 32);
  }

  #all(level: '0' | 'entries'): Buffer[] {
    return Array.from({ length: Math.ceil(this.size / 256) }, (_, n) => this.#tile(level, n, this.size));
  }

  #tile(level: string, n: number, count: number): Buffer {
    const width = Math.min(256, count - n * 256);
    const bytes = this.#file(`tile/${level}/${numbered(n)}${width < 256 ? `.p/${width}` : ''}`);
    if (level !== 'entries') assert.equal(bytes.length, width * 32);
    return bytes;
  }

  #file(name: string): Buffer {
    return fs.readFileSync(path.join(this.directory, name));
  }
}
