/**
 * The bytes of one input, decompressed by the ending of its name.
 *
 * A compressed file is read twice. Its checksum stands at its end, so only then is it known that none of its lines was
 * changed; what is stored cannot be taken back, so nothing of a damaged file may be stored.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import zlib from 'node:zlib';

/** The name of standard input among the files. */
export const STANDARD_INPUT = '-';

const CODINGS = ['gz', 'zst', 'br'] as const;
type Coding = (typeof CODINGS)[number];

/** A compressed file is damaged, or cut short, or something stands behind its end. */
export class CompressionInvalid extends Error {
  override name = 'CompressionInvalid';
}

/** Read of a plain file at a time. */
const PLAIN_BYTES = 1 << 20;
/** Given to a decoder at a time. */
const CODED_BYTES = 1 << 16;

/** How the file is compressed, by its name. */
export function codingOf(name: string): Coding | undefined {
  return CODINGS.find((coding) => name.toLowerCase().endsWith(`.${coding}`));
}

export class Input {
  readonly #name: string;
  readonly #standardInput: AsyncIterable<Buffer>;
  readonly #onRead: (bytes: number) => void;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  /**
   * @param name a path, or `-`.
   * @param onRead told of all bytes that are read, those of a compressed file twice.
   */
  constructor(name: string, standardInput: AsyncIterable<Buffer>, onRead: (bytes: number) => void) {
    this.#name = name;
    this.#standardInput = standardInput;
    this.#onRead = onRead;
  }

  /** The size and the SHA-256 of the file as it stands on the disk. Only once all of `chunks` was read, and only once. */
  digest(): { readonly bytes: number; readonly sha256: string } {
    return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  /**
   * The plain bytes; a chunk is good until the next one is asked for.
   * @throws CompressionInvalid before the first one.
   */
  async *chunks(): AsyncGenerator<Buffer, void> {
    if (this.#name === STANDARD_INPUT) return yield* this.#standardChunks();
    const handle = await fs.promises.open(this.#name, 'r');
    try {
      const coding = codingOf(this.#name);
      if (coding === undefined) return yield* this.#plain(handle);
      const checked = decoded(coding, handle, (piece) => this.#onRead(piece.length));
      // Nothing is kept of the first reading.
      while (!(await checked.next()).done);
      yield* decoded(coding, handle, (piece) => this.#take(piece));
    } finally {
      await handle.close();
    }
  }

  async *#standardChunks(): AsyncGenerator<Buffer, void> {
    for await (const chunk of this.#standardInput) {
      this.#take(chunk);
      yield chunk;
    }
  }

  async *#plain(handle: fs.promises.FileHandle): AsyncGenerator<Buffer, void> {
    const buffer = Buffer.allocUnsafeSlow(PLAIN_BYTES);
    // Without a position, so that a named pipe can be read as well.
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, PLAIN_BYTES, null);
      if (bytesRead === 0) return;
      const chunk = buffer.subarray(0, bytesRead);
      this.#take(chunk);
      yield chunk;
    }
  }

  #take(piece: Buffer): void {
    this.#hash.update(piece);
    this.#bytes += piece.length;
    this.#onRead(piece.length);
  }
}

/**
 * A compressed file may be several behind one another (RFC 1952 section 2.2, RFC 8878 section 3): zlib reads only the first
 * of zstd, and stops without a word at a zero byte behind one of gzip. So one is decoded after the other, until there
 * is nothing behind the last. Brotli has no such thing.
 * @param onRead told of each piece of the file, in order, once.
 */
async function* decoded(
  coding: Coding,
  handle: fs.promises.FileHandle,
  onRead: (piece: Buffer) => void,
): AsyncGenerator<Buffer, void> {
  const { size } = await handle.stat();
  let at = 0;
  let told = 0;
  const read = async (position: number): Promise<Buffer> => {
    const buffer = Buffer.allocUnsafe(CODED_BYTES);
    const { bytesRead } = await handle.read(buffer, 0, CODED_BYTES, position);
    if (position + bytesRead > told) onRead(buffer.subarray(Math.max(0, told - position), bytesRead));
    told = Math.max(told, position + bytesRead);
    return buffer.subarray(0, bytesRead);
  };
  do {
    const start = at;
    at += yield* member(coding, (offset) => read(start + offset));
    if (at === start || (coding === 'br' && at < size)) {
      throw new CompressionInvalid('something else stands behind its end');
    }
  } while (at < size);
}

function decoderOf(coding: Coding): zlib.Gunzip | zlib.BrotliDecompress | zlib.ZstdDecompress {
  if (coding === 'gz') return zlib.createGunzip({ chunkSize: CODED_BYTES });
  if (coding === 'br') return zlib.createBrotliDecompress({ chunkSize: CODED_BYTES });
  return zlib.createZstdDecompress({ chunkSize: CODED_BYTES });
}

/**
 * Decodes from offset 0 on to the end of what begins there.
 * @returns how many bytes that took.
 */
async function* member(
  coding: Coding,
  read: (offset: number) => Promise<Buffer>,
): AsyncGenerator<Buffer, number> {
  const decoder = decoderOf(coding);
  let ended = false;
  let reading: Promise<Buffer> | undefined;
  const feed = async () => {
    for (let offset = 0; ;) {
      const piece = await (reading = read(offset));
      if (ended) return;
      if (piece.length === 0) {
        decoder.end();
        return;
      }
      offset += piece.length;
      // The decoder calls back when it has used the piece up, and perhaps never when it has ended within it.
      await new Promise<void>((resolve) => decoder.write(piece, () => resolve()));
      if (decoder.bytesWritten < offset) return;
    }
  };
  // What the file system refuses is no fault of the file's contents.
  let refused: Error | undefined;
  feed().catch((error: unknown) => {
    refused = error instanceof Error ? error : new Error(String(error));
    decoder.destroy(refused);
  });
  try {
    for await (const chunk of decoder) yield chunk as Buffer;
  } catch (error) {
    if (refused !== undefined) throw refused;
    throw new CompressionInvalid('it is damaged or cut short', { cause: error });
  } finally {
    ended = true;
    // Or it would be told of after what is read next.
    await reading?.catch(() => undefined);
    decoder.destroy();
  }
  return decoder.bytesWritten;
}
