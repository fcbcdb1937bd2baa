/**
 * PostgreSQL's binary formats. node-postgres sends a `Buffer` parameter unchanged, in binary format; such an
 * array costs the server a third of one in text (ADR 20).
 *
 *   array    int32 number of dimensions, 1; int32 whether it has NULLs, 0; int32 OID of the elements;
 *            int32 number of elements; int32 lower bound, 1; then for each element: int32 length, bytes
 */
import { hash } from 'node:crypto';

const HEADER_BYTES = 20;

const OID = { bytea: 17, int8: 20, int2: 21, int4: 23, uuid: 2950 } as const;

/** @returns the header of an array; shorter for an empty array, which has no dimension. */
function header(target: Buffer, oid: number, count: number): Buffer {
  const values = count === 0 ? [0, 0, oid] : [1, 0, oid, count, 1];
  for (const [i, value] of values.entries()) target.writeInt32BE(value, 4 * i);
  return target.subarray(0, 4 * values.length);
}

/** An array of elements of equal size. @param write writes an element at `at`. */
function fixedArray<Value>(
  oid: number,
  size: number,
  values: readonly Value[],
  write: (target: Buffer, at: number, value: Value) => void,
): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + values.length * (4 + size));
  if (values.length === 0) return header(array, oid, 0);
  header(array, oid, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    array.writeInt32BE(size, at);
    write(array, at + 4, value);
    at += 4 + size;
  }
  return array;
}

export function uuidArray(ids: readonly Uint8Array[]): Buffer {
  return fixedArray(OID.uuid, 16, ids, (target, at, id) => target.set(id, at));
}

export function int2Array(values: readonly number[]): Buffer {
  return fixedArray(OID.int2, 2, values, (target, at, value) => target.writeInt16BE(value, at));
}

export function int4Array(values: readonly number[]): Buffer {
  return fixedArray(OID.int4, 4, values, (target, at, value) => target.writeInt32BE(value, at));
}

export function int8Array(values: readonly number[]): Buffer {
  return fixedArray(OID.int8, 8, values, (target, at, value) => target.writeBigInt64BE(BigInt(value), at));
}

export function byteaArray(values: readonly Uint8Array[]): Buffer {
  const bytes = values.reduce((sum, value) => sum + 4 + value.length, HEADER_BYTES);
  const array = Buffer.allocUnsafe(bytes);
  if (values.length === 0) return header(array, OID.bytea, 0);
  header(array, OID.bytea, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    array.writeInt32BE(value.length, at);
    array.set(value, at + 4);
    at += 4 + value.length;
  }
  return array;
}

export function sha256(bytes: Uint8Array): Buffer {
  return hash('sha256', bytes, 'buffer');
}

type Column = Buffer | null | undefined;

function present(column: Column): Buffer {
  if (!column) throw new TypeError('the server sent NULL for a column that is never NULL');
  return column;
}

/** A `smallint`, an `int` or a `bigint`. */
export function numberIn(column: Column): number {
  const bytes = present(column);
  if (bytes.length === 8) return Number(bytes.readBigInt64BE());
  return bytes.readIntBE(0, bytes.length);
}

/** A `bytea`. */
export function bytesIn(column: Column): Buffer {
  return present(column);
}

/** The bytes of a `bytea` in text format. */
export function bytesOf(text: string): Buffer {
  return Buffer.from(text.slice(2), 'hex');
}
