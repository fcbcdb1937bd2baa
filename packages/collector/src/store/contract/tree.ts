/**
 * The contract of the storage of the tree over the ledger.
 *
 * The hashes are derived from the entries of the log. The newest checkpoint, the head, is not: it is a
 * published, signed statement that the log must match permanently.
 */

/** The tree, for reading. A proof needs only `hashes` (tree/merkle.ts, HashSource). */
export interface TreeReader {
  /**
   * Hashes `first` to `first + count - 1` of a level, 32 bytes each: hash i of level L is the Merkle tree
   * hash of the 256^L entries from i * 256^L on (RFC 6962 2.1). Fewer bytes if fewer hashes exist. The buffer
   * belongs to the caller.
   */
  hashes(level: number, first: number, count: number): Promise<Buffer>;
  /** The number of complete hashes of a level. */
  hashCount(level: number): Promise<number>;
  /** The newest checkpoint, a signed note (C2SP tlog-checkpoint); undefined before the first. */
  head(): Promise<string | undefined>;
  close(): Promise<void>;
}

export interface TreeStore extends TreeReader {
  /** Writes hashes of a level from `first` on. They are not durable before `flush`. */
  put(level: number, first: number, hashes: Buffer): Promise<void>;
  /** Makes all hashes durable that were put before the call. After an error all of them must be put again. */
  flush(): Promise<void>;
  /**
   * Replaces the head, durably and atomically. If two sequencers swap the same head, one of them succeeds.
   * @param expected the last head that the caller has seen; undefined if there was none.
   * @param keptSize the size of the tree of the note, if the note is kept after newer ones.
   * @throws {@link HeadMoved} if the head is a different one; then nothing was changed.
   */
  swapHead(expected: string | undefined, note: string, keptSize?: number): Promise<void>;
}

/** Thrown if the newest checkpoint is not the last one that this process has seen. */
export class HeadMoved extends Error {
  override name = 'HeadMoved';
}
