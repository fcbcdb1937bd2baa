/**
 * Where the keys of a log are stored. A vault keeps records by name; without the key-encryption key none of them opens.
 *
 *   epochs/0000001.json             an epoch key, wrapped by the key-encryption key (key-record.ts)
 *   buckets/<sequence>-<tag>.keys   the trees of a bucket of payload keys (key-state.ts)
 *   holds/<action>.keys             the key of a legal hold: a key state with one tree
 *   names.keys                      the keys of names in derived files: a key state with one tree for each
 *   actions/<hash>.json             an action that destroyed keys, for a log that is restored from before it
 *   copies.json                     when copies of the vault were made, and how long they are kept
 *
 * Several processes may write a vault in a database; directories have one writer at a time. Each record has a generation, which `generationOf` reads; a write names the generation that
 * it replaces and is refused where another is stored. Every method may be repeated.
 */
export type RecordName = string;

/** Too few copies can be reached, or written. The message names them. */
export class VaultAway extends Error {
  override name = 'VaultAway';
}

/** The keys cannot be used. The message says which, and never holds one. */
export class KeysUnfit extends Error {
  override name = 'KeysUnfit';
}

export interface KeyVault {
  /** The places that hold a copy: directories, or the address of a database. At least one. */
  readonly copies: readonly string[];

  /** The copies that the last write or erasure did not reach, and why: they may lack records, or have older ones. */
  readonly unwritten: ReadonlyMap<string, unknown>;

  /** Another number whenever reads give something else than before; undefined where other processes may change it unseen. */
  readonly version?: number;

  /**
   * On return, reads give what was stored before the call by any process.
   * @returns records that this process had stored or read and that the vault no longer has in that generation, because it
   *   was restored from an older copy: the caller merges and writes them.
   * @throws VaultAway
   */
  refresh(): Promise<ReadonlyMap<RecordName, Buffer>>;

  /** The names of the records in all copies that answer, sorted. @param within such as `buckets`. @throws VaultAway */
  list(within: string): RecordName[];

  /**
   * The distinct sound contents of a record in the copies that answer, that of the first copy first. A key state under
   * another record's name is not sound.
   * @throws VaultAway when no copy answers.
   */
  read(name: RecordName): Buffer[];

  /**
   * On return with `written`, the record is durable in the first copy and, where there are several, in a second one.
   * @param after the generation that it replaces, which is the highest in any copy that answers; 0 for a record that is not
   *   there.
   * @returns `written` also where the newest copy has these bytes already: copies that lag get them. `stale`, with nothing
   *   changed, where another generation is stored, or where the epoch of a key state is not.
   * @throws VaultAway when too few copies can be written. A part of them may have the record: the same write is repeated.
   */
  write(name: RecordName, bytes: Buffer, after: number): Promise<'written' | 'stale'>;

  /**
   * Replaces or removes a record so that no copy that was reached has its old bytes; those are overwritten.
   * @param bytes what is left; undefined removes the record. What was done before is done again, whatever `after` is.
   * @returns the copies that could not be reached and may have the old bytes; `stale`, with nothing changed, as for `write`,
   *   and for an epoch that a key state is still under.
   */
  erase(name: RecordName, bytes: Buffer | undefined, after: number): Promise<readonly string[] | 'stale'>;

  /** @throws VaultAway when a record could not be written now. */
  prove(): Promise<void>;

  close(): Promise<void>;
}
