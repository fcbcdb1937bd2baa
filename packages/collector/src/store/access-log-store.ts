/** Where it is noted who read what: the contract that every driver keeps. */

export interface AccessLogStore {
  /** How many bytes there are by now; 0 when there is no log. @throws {@link AccessLogUnfit} */
  size(): number;
  /** The bytes from a position on; fewer than `length` only at the end. @throws {@link AccessLogUnfit} */
  read(position: number, length: number): Buffer;
  /** On return everything that could be read before the call is on stable storage. */
  flush(): Promise<void>;
}

/** Something else stands where the log should. */
export class AccessLogUnfit extends Error {
  override name = 'AccessLogUnfit';
}
