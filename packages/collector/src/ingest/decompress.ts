/** Undoes Content-Encoding (RFC 9110 section 8.4), never making more than the limit allows. */
import zlib from 'node:zlib';
import { systemCode } from '../system-code.js';

type Decoder = (body: Uint8Array, limit: number) => Buffer;

/**
 * Synchronous on purpose: one body at a time, so that the decoders' windows cannot add up. A window may be 8 MiB
 * for zstd (RFC 8878 asks every decoder for that much) and 16 MiB for brotli, while a whole event is 1 MiB.
 *
 * Bytes behind the end of a br or zstd body would be dropped in silence, a second zstd frame among them, and half an
 * event stored as if it were whole; so they are refused. Further gzip members are read (RFC 1952 section 2.2); behind a zero
 * byte zlib would stop without a word, so what it consumed is held against what came.
 */
const DECODERS: Readonly<Record<string, Decoder>> = {
  gzip(body, limit) {
    // The typings do not know what `info` makes of the result.
    const { buffer, engine } = zlib.gunzipSync(body, { maxOutputLength: limit, info: true }) as unknown as {
      buffer: Buffer;
      engine: zlib.Gunzip;
    };
    if (engine.bytesWritten !== body.length) throw new Error('bytes stand behind the end of the body');
    return buffer;
  },
  br: (body, limit) =>
    zlib.brotliDecompressSync(body, { maxOutputLength: limit, rejectGarbageAfterEnd: true }),
  zstd: (body, limit) =>
    zlib.zstdDecompressSync(body, {
      maxOutputLength: limit,
      rejectGarbageAfterEnd: true,
      params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 },
    }),
};

export type Encoding = 'identity' | 'gzip' | 'br' | 'zstd';

/** The one coding that the header names, or undefined when it names another one or several. */
export function contentEncoding(header: string | undefined): Encoding | undefined {
  if (header === undefined) return 'identity';
  const name = header.trim().toLowerCase();
  if (name === 'identity' || name === '') return 'identity';
  if (name === 'x-gzip') return 'gzip';
  return Object.hasOwn(DECODERS, name) ? (name as Encoding) : undefined;
}

/**
 * @param limit the most bytes that may come out.
 * @returns the plain body, or the code of the error it must be refused with.
 */
export function decompress(
  encoding: Exclude<Encoding, 'identity'>,
  body: Uint8Array,
  limit: number,
): Buffer | 'body_too_large' | 'invalid_compression' {
  try {
    return (DECODERS[encoding] as Decoder)(body, limit);
  } catch (error) {
    return systemCode(error) === 'ERR_BUFFER_TOO_LARGE' ? 'body_too_large' : 'invalid_compression';
  }
}
