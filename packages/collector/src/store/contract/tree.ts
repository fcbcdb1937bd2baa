/**
 * Where the tree over the ledger is kept: the contract that every driver keeps.
 *
 * The hashes are derived: the entries of the log give all of them. The newest checkpoint, the head, is not: it is a
 * signed statement that was given out, and the log must agree with it permanently.
 */

/** The tree as it can be read. `hashes` is all that a proof needs (tree/merkle.ts, HashSource). */
export interface TreeReader {
  /**
   * Hashes `first` to `first + count - 1` of a level, 32 bytes each: hash i of level L is the Merkle tree hash of the
   * 256^L entries from i * 256^L on (RFC 6962 2.1). Fewer bytes when fewer are there. In memory of the caller's own.
   */
  hashes(level: number, first: number, count: number): Promise<Buffer>;
  /** How many whole hashes of a level are there. */
  hashCount(level: number): Promise<number>;
  /** The newest checkpoint, a signed note (C2SP tlog-checkpoint); undefined before the first. */
  head(): Promise<string | undefined>;
  close(): Promise<void>;
}

export interface TreeStore extends TreeReader {
  /** Puts hashes at a level from `first` on, over what is there. Not on stable storage before `flush`. */
  put(level: number, first: number, hashes: Buffer): Promise<void>;
  /** On return everything put before the call is on stable storage. After an error all of it has to be put again. */
  flush(): Promise<void>;
  /**
   * On return the note is the head, on stable storage; until then the one before is. Of two sequencers that swap the
   * same head, one succeeds.
   * @param expected the head that the caller has seen last; undefined when there was none.
   * @param keptSize the size of the note's tree, when the note stays after a newer one comes.
   * @throws {@link HeadMoved} when the head is another one; then nothing was changed.
   */
  swapHead(expected: string | undefined, note: string, keptSize?: number): Promise<void>;
}

/** The newest checkpoint is not the one that this process has seen last. */
export class HeadMoved extends Error {
  override name = 'HeadMoved';
}
