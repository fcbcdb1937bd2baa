/** Where the readings are noted, and what was signed of them: the contract that every driver keeps. */

export interface AccessLogReader {
  /** How many bytes there are by now; undefined when there is no log. */
  size(): number | undefined;
  /** The bytes from a position on; fewer than `length` only at the end. */
  read(position: number, length: number): Buffer;
  /** The newest checkpoint, a signed note (C2SP tlog-checkpoint); undefined before the first. */
  checkpoint(): string | undefined;
}

export interface AccessLogStore extends AccessLogReader {
  /** On return everything that could be read before the call is on stable storage. */
  flush(): Promise<void>;
  /** On return the note is the newest checkpoint, on stable storage; until then the one before is. */
  setCheckpoint(note: string): Promise<void>;
  /** On return the line, given without its line feed, stands behind all others, on stable storage. */
  append(line: string): void;
}
