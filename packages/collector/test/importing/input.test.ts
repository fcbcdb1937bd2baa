import { hash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { codingOf, CompressionInvalid, Input } from '../../src/importing/input.js';
import { temporaryDirectory } from '../running/collector-process.js';

interface Read {
  readonly plain: Buffer;
  readonly digest: { readonly bytes: number; readonly sha256: string };
  /** All that was told of by onRead. */
  readonly told: number;
}

async function readAll(name: string, standardInput: AsyncIterable<Buffer> = nothing()): Promise<Read> {
  let told = 0;
  const input = new Input(name, standardInput, (bytes) => (told += bytes));
  const pieces: Buffer[] = [];
  for await (const chunk of input.chunks()) pieces.push(Buffer.from(chunk));
  return { plain: Buffer.concat(pieces), digest: input.digest(), told };
}

async function* nothing(): AsyncGenerator<Buffer, void> {
  // No standard input.
}

async function* chunks(...texts: readonly string[]): AsyncGenerator<Buffer, void> {
  for (const text of texts) yield Promise.resolve(Buffer.from(text));
}

function file(name: string, content: Uint8Array): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const made = path.join(directory, name);
  fs.writeFileSync(made, content);
  return made;
}

const ENCODERS = {
  gz: (plain: Uint8Array) => zlib.gzipSync(plain),
  zst: (plain: Uint8Array) =>
    zlib.zstdCompressSync(plain, { params: { [zlib.constants.ZSTD_c_checksumFlag]: 1 } }),
  br: (plain: Uint8Array) =>
    zlib.brotliCompressSync(plain, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 } }),
};
type Coding = keyof typeof ENCODERS;
const CODINGS = Object.keys(ENCODERS) as Coding[];

/** Small, and so large that it takes many pieces on either side of the decoder. */
const PLAINS = [
  Buffer.from('{"a":1}\n'),
  Buffer.from('x'.repeat(3 << 20)),
  Buffer.from(randomBytes(600_000).toString('base64')),
];

describe('an input [R-714]', () => {
  test('is read as it stands on the disk', async () => {
    for (const plain of [Buffer.alloc(0), ...PLAINS]) {
      const { digest, told, ...read } = await readAll(file('events.ndjson', plain));
      expect(read.plain.equals(plain)).toBe(true);
      expect(digest).toEqual({ bytes: plain.length, sha256: hash('sha256', plain, 'hex') });
      expect(told).toBe(plain.length);
    }
  });

  test('is standard input when it is called -', async () => {
    const { plain, digest } = await readAll('-', chunks('{"a"', ':1}\n'));
    expect(plain.toString()).toBe('{"a":1}\n');
    expect(digest).toEqual({ bytes: 8, sha256: hash('sha256', '{"a":1}\n', 'hex') });
  });

  test.each(CODINGS)(
    'is decompressed by the ending .%s of its name, and its digest is that of the file',
    async (coding) => {
      for (const plain of PLAINS) {
        const coded = ENCODERS[coding](plain);
        const { digest, told, ...read } = await readAll(file(`EVENTS.${coding.toUpperCase()}`, coded));
        expect(read.plain.equals(plain)).toBe(true);
        expect(digest).toEqual({ bytes: coded.length, sha256: hash('sha256', coded, 'hex') });
        expect(told).toBe(2 * coded.length);
      }
    },
  );

  test.each(['gz', 'zst'] as const)(
    'may be several .%s files behind one another, wherever they meet',
    async (coding) => {
      const plains = [...PLAINS, Buffer.alloc(0), Buffer.from('last')];
      const coded = Buffer.concat(plains.map(ENCODERS[coding]));
      const { plain, digest } = await readAll(file(`events.${coding}`, coded));
      expect(plain.equals(Buffer.concat(plains))).toBe(true);
      expect(digest).toEqual({ bytes: coded.length, sha256: hash('sha256', coded, 'hex') });
    },
  );

  test('may have its compressed files meet where one piece of the reading ends', async () => {
    const PIECE = 1 << 16;
    const plain = randomBytes(1000);
    // Filled up with a header field of gzip, and with a frame of zstd that readers skip.
    const gz = zlib.gzipSync(plain);
    const field = Buffer.from(`${'x'.repeat(PIECE - gz.length - 1)}\0`);
    const filledGz = Buffer.concat([gz.subarray(0, 10), field, gz.subarray(10)]);
    filledGz.writeUInt8(8, 3);
    const zst = ENCODERS.zst(plain);
    const skipped = Buffer.alloc(PIECE - zst.length);
    skipped.writeUInt32LE(0x184d2a50, 0);
    skipped.writeUInt32LE(skipped.length - 8, 4);
    const filledZst = Buffer.concat([zst, skipped]);
    for (const [coding, first] of [
      ['gz', filledGz],
      ['zst', filledZst],
    ] as const) {
      expect(first.length).toBe(PIECE);
      const coded = Buffer.concat([first, ENCODERS[coding](Buffer.from('second')), first]);
      const { plain: read, digest } = await readAll(file(`events.${coding}`, coded));
      expect(read.equals(Buffer.concat([plain, Buffer.from('second'), plain]))).toBe(true);
      expect(digest.bytes).toBe(coded.length);
    }
  });

  const damages: readonly (readonly [string, (coded: Buffer) => Buffer])[] = [
    ['is empty', () => Buffer.alloc(0)],
    ['lacks its last byte', (coded) => coded.subarray(0, -1)],
    ['lacks its second half', (coded) => coded.subarray(0, coded.length >> 1)],
    ['has something else behind it', (coded) => Buffer.concat([coded, Buffer.from('more')])],
    ['has zeros behind it', (coded) => Buffer.concat([coded, Buffer.alloc(100)])],
    ['is no such file', () => Buffer.from('{"a":1}\n')],
  ];
  test.each(CODINGS.flatMap((coding) => damages.map(([what, damage]) => [coding, what, damage] as const)))(
    'with the ending .%s that %s is refused before any of it is handed over',
    async (coding, _what, damage) => {
      for (const plain of PLAINS) {
        const name = file(`events.${coding}`, damage(ENCODERS[coding](plain)));
        const input = new Input(name, nothing(), () => undefined);
        await expect(input.chunks().next()).rejects.toThrow(CompressionInvalid);
      }
    },
  );

  test.each(['gz', 'zst'] as const)(
    'with a changed bit is refused, as .%s files have a checksum',
    async (coding) => {
      const coded = ENCODERS[coding](PLAINS[2] ?? Buffer.alloc(0));
      for (const at of [coded.length >> 2, coded.length >> 1, coded.length - 10]) {
        const changed = Buffer.from(coded);
        changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
        const input = new Input(file(`events.${coding}`, changed), nothing(), () => undefined);
        await expect(input.chunks().next()).rejects.toThrow(CompressionInvalid);
      }
    },
  );

  test('that cannot be read is not called damaged', async () => {
    const input = new Input(path.join(temporaryDirectory(), 'none.gz'), nothing(), () => undefined);
    await expect(input.chunks().next()).rejects.toThrow(/ENOENT/);
  });

  test('can be left before its end', async () => {
    const input = new Input(file('events.gz', zlib.gzipSync(PLAINS[1] ?? '')), nothing(), () => undefined);
    for await (const chunk of input.chunks()) {
      expect(chunk.length).toBeGreaterThan(0);
      break;
    }
  });
});

test('the coding goes by the ending alone', () => {
  expect(['a.gz', 'b.GZ', 'c.ndjson.zst', 'd.br'].map(codingOf)).toEqual(['gz', 'gz', 'zst', 'br']);
  expect(['-', 'a.ndjson', 'gz', 'a.gz.ndjson', 'a.zip'].map(codingOf)).toEqual(Array(5).fill(undefined));
});
