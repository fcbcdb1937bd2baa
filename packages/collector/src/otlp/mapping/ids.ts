/**
 * Ids that a repeated request reproduces: UUIDs of version 8 (RFC 9562) from SHA-256
 * (docs/reference/otlp.md).
 */
import { hash } from 'node:crypto';

/** @param parts each is hashed after its length, so that different lists of parts give different bytes. */
function uuid(...parts: readonly string[]): string {
  const lengths = parts.map((part) => Buffer.byteLength(part));
  const isShort = lengths.every((length) => length < 128);
  // A length of one byte is an ASCII character; hashing a string takes half the time of hashing bytes.
  const framed = isShort
    ? parts.map((part, at) => `\0\0\0${String.fromCharCode(lengths[at] as number)}${part}`).join('')
    : Buffer.concat(parts.flatMap((part, at) => [uint32(lengths[at] as number), Buffer.from(part)]));
  const hex = hash('sha256', framed, 'hex');
  const variant = '89ab'.charAt(parseInt(hex.charAt(16), 16) & 3);
  const [first, second] = [hex.slice(0, 8), hex.slice(8, 12)];
  return `${first}-${second}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function runIdOf(organisation: string, traceId: string): string {
  return uuid('clinical-events otlp run 1', organisation, traceId);
}

/** @param ordinal the number of the event among the span's events of its kind, from 0 on. */
export function spanEventId(
  organisation: string,
  { traceId, spanId }: { readonly traceId: string; readonly spanId: string },
  kind: string,
  ordinal: number,
): string {
  return uuid('clinical-events otlp span 1', organisation, traceId, spanId, kind, String(ordinal));
}

/** @param record the whole record, with its members in any order. */
export function logEventId(organisation: string, record: unknown): string {
  return uuid('clinical-events otlp log 1', organisation, canonical(record));
}

/** JSON without spaces, with members in the order of their UTF-16 units (RFC 8785). */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null);
  const members = value as Readonly<Record<string, unknown>>;
  const names = Object.keys(members)
    .filter((name) => members[name] !== undefined)
    .sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(members[name])}`).join(',')}}`;
}
