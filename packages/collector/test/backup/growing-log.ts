/** A log that grows as it is told, for back-ups of it; what a restored data directory has to hold; and a sudden end. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { BackedUpLog } from '../../src/backup/backed-up-log.js';

/** The run ended here, as by a kill: nobody has tidied up. */
export class Killed extends Error {
  override name = 'Killed';
}

export class GrowingLog {
  /** The bytes of each segment; to the last one more are added. */
  readonly segments: Buffer[] = [randomBytes(64)];
  readonly kept: string[] = [];
  accessLog = 'begun\n';
  keys = 'no key';
  events = 0;
  #first = [1];
  /** How many more steps a run may take before it is killed. */
  #life = Infinity;

  append(bytes: number): void {
    this.segments.push(Buffer.concat([this.segments.pop() ?? Buffer.alloc(0), randomBytes(bytes)]));
    this.events += bytes;
    this.accessLog += `read ${bytes}\n`;
  }

  /** The last segment is whole from now on. */
  roll(): void {
    if (this.#first.at(-1) === this.events + 1) return;
    this.segments.push(randomBytes(64));
    this.#first.push(this.events + 1);
    this.kept.push(`checkpoints/${String(this.events).padStart(16, '0')}.checkpoint`);
    this.keys = `keys at ${this.events}`;
  }

  /** @param life how many steps the run that is given this may take. */
  backedUp(life = Infinity): BackedUpLog {
    this.#life = life;
    const text = (file: string, content: string) => ({
      file,
      read: () => {
        this.#step();
        return Buffer.from(content);
      },
    });
    return {
      ...{
        ledgerId: '0f'.repeat(16),
        origin: 'log.example/ward-7',
        events: this.events,
        entries: this.events,
        lastReceivedAt: 0,
      },
      checkpoint: { origin: 'log.example/ward-7', size: this.events, root: Buffer.alloc(32, this.events) },
      note: `signed ${this.events}\n`,
      cosigned: { 'cosigned-0a1b2c3d': `cosigned ${this.events}\n` },
      segments: this.segments.map((bytes, i) => ({
        file: this.#name(i),
        bytes: bytes.length,
        pieces: () => this.#pieces(bytes),
      })),
      files: [text('checkpoints/origin.vkey', 'key\n'), ...this.kept.map((file) => text(file, `${file}\n`))],
      signingKeys: [],
      accessLog: () => {
        const bytes = Buffer.from(this.accessLog);
        return { bytes: bytes.length, pieces: () => this.#pieces(bytes) };
      },
      copyKeys: (file) => {
        fs.writeFileSync(file, this.keys);
        this.#step();
        return Promise.resolve(true);
      },
    };
  }

  /** What a back-up made now is to be restored to, by file. */
  restored(): Map<string, string> {
    return new Map(
      [
        ...this.segments.map((bytes, i): [string, string] => [this.#name(i), bytes.toString('hex')]),
        ...this.kept.map((file): [string, string] => [file, hex(`${file}\n`)]),
        ['checkpoints/origin.vkey', hex('key\n')] as [string, string],
        ['checkpoints/latest', hex(`signed ${this.events}\n`)] as [string, string],
        ['checkpoints/cosigned-0a1b2c3d', hex(`cosigned ${this.events}\n`)] as [string, string],
        ['access.log', hex(this.accessLog)] as [string, string],
        ['keys.db', hex(this.keys)] as [string, string],
      ].sort(([a], [b]) => (a < b ? -1 : 1)),
    );
  }

  *#pieces(bytes: Buffer): Generator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += 100) {
      this.#step();
      yield bytes.subarray(at, at + 100);
    }
  }

  #name(segment: number): string {
    return `ledger/${String(this.#first[segment]).padStart(16, '0')}.segment`;
  }

  #step(): void {
    if (this.#life-- <= 0) throw new Killed();
  }
}

function hex(text: string): string {
  return Buffer.from(text).toString('hex');
}

/** Every file below a directory, in hexadecimal. */
export function filesBelow(directory: string): Map<string, string> {
  const found = fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  return new Map(
    found.sort().map((file) => [path.relative(directory, file), fs.readFileSync(file).toString('hex')]),
  );
}
