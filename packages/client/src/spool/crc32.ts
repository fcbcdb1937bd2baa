/** CRC-32 (ISO-HDLC, the one of zlib, gzip and PNG), for every Node from 20. */
import * as zlib from 'node:zlib';

type Crc32 = (bytes: Uint8Array, before?: number) => number;

const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** Byte by byte, 300 MB/s. */
export const crc32ByTable: Crc32 = (bytes, before = 0) => {
  let value = ~before;
  for (const byte of bytes) value = (value >>> 8) ^ (TABLE[(value ^ byte) & 0xff] as number);
  return ~value >>> 0;
};

/**
 * The checksum of what `before` is the checksum of, followed by `bytes`.
 * Node has its own from 20.15 on, ten times as fast; a missing one must not be named in an import.
 */
export const crc32: Crc32 = (zlib as { crc32?: Crc32 }).crc32 ?? crc32ByTable;
