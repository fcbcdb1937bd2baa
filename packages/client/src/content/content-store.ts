/** Where large content is kept, so that events only refer to it. */
import { createHash } from 'node:crypto';

export interface ContentStore {
  /**
   * On return the content is durable under its hash, whole: a reader never sees a part of it. Content that is there
   * already is left as it is.
   * @param sha256 of the content, in lower-case hexadecimal.
   */
  put(content: Uint8Array, sha256: string): Promise<void>;
}

/** What an event says of content: `sha256:` and the hash in lower-case hexadecimal. It does not say where it is kept. */
export function contentUri(sha256: string): string {
  return `sha256:${sha256}`;
}

export function sha256Of(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}
