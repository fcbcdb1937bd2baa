/**
 * The vault: the storage of the keys of a log. It keeps records by name; only the key-encryption key opens
 * them.
 *
 *   epochs/0000001.json             an epoch key, wrapped by the key-encryption key (key-record.ts)
 *   buckets/<sequence>-<tag>.keys   the trees of a bucket of payload keys (key-state.ts)
 *   holds/<action>.keys             the key of a legal hold: a key state with one tree
 *   names.keys                      the keys of names in derived files: a key state with one tree for each
 *   actions/<hash>.json             an action that destroyed keys, for a log restored from an older copy
 *   copies.json                     times of copies of the vault, and how long they are kept
 *
 * Several processes may write a vault in a database; directories have one writer at a time. Each record has a
 * generation (`generationOf`); a write names the generation that it replaces and is refused if another one is
 * stored. Every method may be repeated.
 */
export type RecordName = string;

/** Thrown if too few copies can be read or written. The message names them. */
export class VaultAway extends Error {
  override name = 'VaultAway';
}

/** Thrown if the keys cannot be used. The message names them and never contains one. */
export class KeysUnfit extends Error {
  override name = 'KeysUnfit';
}

export interface KeyVault {
  /** The locations of the copies: directories, or the address of a database. At least one. */
  readonly copies: readonly string[];

  /**
   * The copies that the last write or erasure did not reach, with the errors; they may have missing or old
   * records.
   */
  readonly unwritten: ReadonlyMap<string, unknown>;

  /**
   * Changes whenever reads may give different results; undefined if other processes may change it undetected.
   */
  readonly version?: number;

  /**
   * Reads the changes of other processes.
   * @returns records that this process had stored or read and that a restore of the vault from an older copy
   *   has lost; the caller merges and writes them.
   * @throws VaultAway
   */
  refresh(): Promise<ReadonlyMap<RecordName, Buffer>>;

  /**
   * The names of the records in all copies that answer, sorted.
   * @param within such as `buckets`.
   * @throws VaultAway
   */
  list(within: string): RecordName[];

  /**
   * The distinct valid contents of a record in the copies that answer, in the order of copies. A key state
   * under the name of another record is invalid.
   * @throws VaultAway if no copy answers.
   */
  read(name: RecordName): Buffer[];

  /**
   * Writes a record, durably in the first copy and, if there are several, in a second one.
   * @param after the generation that it replaces: the highest in any copy that answers; 0 for a new record.
   * @returns `written`, even if the newest copy already has these bytes: lagging copies get them. `stale`
   *   without a change if another generation is stored, or the epoch of a key state is not stored.
   * @throws VaultAway if too few copies can be written. Some may have the record, so the caller repeats the
   * write.
   */
  write(name: RecordName, bytes: Buffer, after: number): Promise<'written' | 'stale'>;

  /**
   * Replaces or removes a record, and overwrites its old bytes, in every copy that can be reached.
   * @param bytes the new content; undefined removes the record. A repeat of a completed call ignores `after`.
   * @returns the copies that could not be reached and may have the old bytes; `stale` without a change, as
   *   for `write`, and for an epoch under which a key state is encrypted.
   */
  erase(name: RecordName, bytes: Buffer | undefined, after: number): Promise<readonly string[] | 'stale'>;

  /** Tries to write. @throws VaultAway if a record cannot be written. */
  prove(): Promise<void>;

  close(): Promise<void>;
}
