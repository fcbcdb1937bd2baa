/** What an operator types to `collector keys`, read strictly. Each function throws a usage failure that says how. */
import { didYouMean, EVENT_KINDS } from '@clinical-events/protocol';
import { certificateName } from '../access/certificate-name.js';
import { isKeyId, keyIdOf } from '../access/key-text.js';
import { parseRateLimit } from '../access/rate-limit.js';
import { parseDuration } from '../quantity.js';
import type { Permissions, RateLimit } from '../store/key-store.js';
import { CommandFailure, EXIT } from './exit-codes.js';

/** What the operator typed cannot be meant. */
export function usage(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.usage);
}

/** `all`, or kinds with commas between them; the order and repeats do not matter. */
export function permissionsFrom(text: string): Permissions {
  const names = new Set(text.split(',').map((name) => name.trim()));
  const known: readonly string[] = ['all', ...EVENT_KINDS];
  const unknown = [...names].find((name) => !known.includes(name));
  if (unknown !== undefined) {
    const guess = didYouMean(unknown, known);
    throw usage(`--permissions: ${JSON.stringify(unknown)} is none of ${known.join(', ')}${guess}`);
  }
  return names.has('all') ? 'all' : EVENT_KINDS.filter((kind) => names.has(kind));
}

/** Years beyond 9999 cannot be written in RFC 3339. */
const END_OF_TIME = Date.UTC(10_000, 0);
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** Date.parse takes 30 February for 2 March; a day that exists comes back as it was. */
function isDate(day: string): boolean {
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/** A duration with its unit: `--expires 90` would be 90 milliseconds, and was surely meant as days. */
function timeFrom(text: string): number | undefined {
  return /^[1-9]\d*$/.test(text) ? undefined : parseDuration(text);
}

/** An instant (RFC 3339), or how long from now. @returns milliseconds since 1970 UTC, in the future. */
export function expiryFrom(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  const [, date] = INSTANT.exec(text) ?? [];
  const at = date === undefined ? nowMs + (timeFrom(text) ?? Number.NaN) : Date.parse(text.toUpperCase());
  if (!(at < END_OF_TIME) || (date !== undefined && !isDate(date))) {
    throw usage(
      `--expires: ${JSON.stringify(text)} is neither an instant like 2027-01-01T00:00:00Z nor a time like 90d`,
    );
  }
  if (at <= nowMs) throw usage(`--expires: ${text} is not in the future`);
  return at;
}

/** `100/s` or `100/s:500`. */
export function rateLimitFrom(text: string | undefined): RateLimit | undefined {
  if (text === undefined) return undefined;
  const limit = parseRateLimit(text);
  if (limit === undefined) {
    throw usage(
      `--rate-limit: ${JSON.stringify(text)} is not of the form 100/s or 100/s:500 (events per second, burst)`,
    );
  }
  return limit;
}

/** `dns:` or `uri:`, and a name of that kind in the certificate. */
export function clientCertificateFrom(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const name = certificateName(text);
  if (name === undefined) {
    throw usage(
      `--client-certificate: ${JSON.stringify(text)} is neither like dns:app.example.org nor like uri:spiffe://example.org/app`,
    );
  }
  return name;
}

/** A key id. Never repeats what it was given: people paste whole keys where the id is asked for. */
export function keyIdFrom(text: string): string {
  if (isKeyId(text)) return text;
  const keyId = keyIdOf(text);
  if (keyId === undefined) {
    throw usage('that is not a key id: 12 characters of a-z 2-7, as "collector keys list" shows');
  }
  throw usage(
    `give the key id, ${keyId}, and not the key itself: other users of this host can read it in the process list`,
  );
}

/** How long an old key stays accepted. @returns milliseconds. */
export function overlapFrom(text: string, nowMs: number): number {
  const overlap = timeFrom(text);
  if (overlap === undefined || nowMs + overlap >= END_OF_TIME) {
    throw usage(`--overlap: ${JSON.stringify(text)} is not a time such as 24h, or 0`);
  }
  return overlap;
}
