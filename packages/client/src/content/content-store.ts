/** Where large content is kept, so that events only refer to it. */
import { createHash } from 'node:crypto';
import { types } from 'node:util';

export interface ContentStore {
  /**
   * On return the content is durable under its hash, whole: a reader never sees a part of it. Content that is there
   * already is left as it is. It has to come to an end: what it has not answered takes memory, up to 32 MiB, and then
   * content is refused.
   * @param sha256 of the content, in lower-case hexadecimal.
   */
  put(content: Uint8Array, sha256: string): Promise<void>;
  /**
   * The same at the end of the process, when nothing can be awaited any more. Without it, what was not stored by then
   * is lost, which is told.
   */
  putNow?(content: Uint8Array, sha256: string): void;
}

/** What an event says of content: `sha256:` and the hash in lower-case hexadecimal. It does not say where it is kept. */
export function contentUri(sha256: string): string {
  return `sha256:${sha256}`;
}

export function sha256Of(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/**
 * A copy of the bytes: the caller may write over its own before they are stored.
 * @returns undefined for what is neither a text nor a Uint8Array, whatever length it says it has.
 */
export function copyOf(content: unknown): Uint8Array | undefined {
  if (typeof content === 'string') return Buffer.from(content);
  return types.isUint8Array(content) ? new Uint8Array(content) : undefined;
}
