/** Secrets of one login or session, and how they are compared. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** 256 random bits as text. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

export function isToken(text: unknown): text is string {
  return typeof text === 'string' && /^[\w-]{43}$/.test(text);
}

/** Compares without a hint by the time that it takes. */
export function isSame(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(sha256(a)), Buffer.from(sha256(b)));
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
