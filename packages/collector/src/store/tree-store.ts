/**
 * Where the tree over the ledger is kept: the contract that every driver keeps.
 *
 * Two things of different worth. The hashes are derived: from the events of the log they can all be made again. The
 * checkpoints are not: each is a signed statement that was given out, and the log must agree with it for ever.
 */

/** The tree as it can be read. `hashes` is all that a proof needs (integrity/merkle.ts, HashSource). */
export interface TreeReader {
  /**
   * Hashes `first` to `first + count - 1` of a level, 32 bytes each: hash i of level L is the Merkle tree hash of the
   * 256^L events from i * 256^L on (RFC 6962 2.1). Fewer bytes when fewer are there.
   */
  hashes(level: number, first: number, count: number): Buffer;
  /** How many whole hashes of a level are there. */
  hashCount(level: number): number;
  /** The newest checkpoint, a signed note (C2SP tlog-checkpoint); undefined before the first. */
  checkpoint(): string | undefined;
  close(): void;
}

export interface TreeStore extends TreeReader {
  /** Puts hashes at a level from `first` on, over what is there. Not on stable storage before `flush`. */
  put(level: number, first: number, hashes: Buffer): void;
  /** On return everything put before the call is on stable storage. After an error all of it has to be put again. */
  flush(): Promise<void>;
  /**
   * On return the note is the newest checkpoint, on stable storage; until then the one before is.
   * @param size of the tree that it speaks of.
   * @param keep whether it stays when a newer one comes.
   */
  setCheckpoint(note: string, size: number, keep: boolean): Promise<void>;
}
