/**
 * The keys of payloads, for who writes a log: gives each event its key, makes new keys durable, destroys keys, begins epochs.
 * It alone decodes, merges and repairs what the vault stores; it knows no file and no SQL.
 *
 * A bucket is a stretch of at most 65,536 places and a day of one process, with a random root for each organisation. Two
 * copies of the keys that were used apart never have different roots under one name.
 */
import type { KeyObject } from 'node:crypto';
import type { KeyEncryptionKey } from './key-encryption-key.js';
import type { KeyVault } from './key-vault.js';
import type { NameCipher } from './name-cipher.js';
import type { SequenceSet } from './sequence-set.js';

/** What an event is encrypted by. */
export interface EventKey {
  /** Names the bucket in its frame. */
  readonly tag: number;
  readonly key: string;
}

/** Whose keys are to be destroyed: sequences of events of an organisation, by the tag of their bucket. */
export interface TakenKeys {
  readonly tag: number;
  readonly organisation: string;
  readonly sequences: SequenceSet;
  /** Of a log in a database: what keys were asked for by, where it is not the sequences. */
  readonly places?: SequenceSet;
}

/** Gives the keys of events that are stored. `KeyReader.open(vault, kek)` for readers, `PayloadKeys.stored` for writers. */
export interface StoredKeys {
  /**
   * The key of an event; undefined when it is not there, or not any more.
   * @param tag of its bucket, as its frame names it.
   * @throws KekFault, KeysUnfit when no key at all can be had.
   */
  keyOf(tag: number, organisation: string, sequence: number): string | undefined;
  /** Whether the bucket is there, and has or had keys of the organisation. @throws as `keyOf`. */
  knows(tag: number, organisation: string): boolean;
  /** For names in files that are derived from payloads: under the newest names key. @throws KekFault, KeysUnfit */
  names(): NameCipher;
  /** The key of the record of a legal hold; undefined when it is destroyed, or was never made. @throws as `keyOf`. */
  holdKey(action: string): KeyObject | undefined;
  /** The bodies of the actions that are noted beside the keys, of which the log may be an older state. */
  noted(): Buffer[];
  /**
   * What was not found before is looked for once more, and what is kept in memory is read again after ten seconds. Of a vault
   * in a database `await vault.refresh()` goes before.
   */
  readAgain(): void;
}

export interface PayloadKeysOptions {
  readonly vault: KeyVault;
  /** Opens the epoch keys, and wraps new ones. */
  readonly kek: KeyEncryptionKey;
  readonly ledgerId: string;
  /** Whether there have to be keys: what is encrypted would be lost if others were made. */
  readonly isNeeded?: boolean;
  /** Keys are asked for by places that are no sequences: those of a log in a database. */
  readonly hasPlaces?: boolean;
  /** A copy of the keys cannot be written; another has what it lacks. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

export declare class PayloadKeys {
  /** Of what is stored, by the same opened keys. */
  readonly stored: StoredKeys;
  /** Whether every root that was given out is durable: then `flush` has nothing to do. */
  readonly isDurable: boolean;
  /** Whether a rotation was begun and is not at its end. Asked of no disk, which may hang. */
  readonly isRotating: boolean;
  /** The number of the newest epoch. */
  readonly epoch: number;
  /** When the newest epoch was begun, in ms since 1970. */
  readonly epochBegun: number;
  /** How many copies of the keys there are, and how many could not be written the last time. */
  readonly directories: { readonly all: number; readonly inTrouble: number };

  /**
   * Opens the keys, or makes them where there are none. On return every copy that can be written holds what the others hold.
   * @throws KeysUnfit when they are those of another log, or are needed and not there; KekFault; VaultAway.
   */
  static open(options: PayloadKeysOptions): Promise<PayloadKeys>;

  /** The key of the event that is to be stored next; in memory. It may be stored once `flush` has returned. */
  keyFor(organisation: string, sequence: number): EventKey;

  /** On return every root that was given out is durable. @throws VaultAway; it is tried again as it is. */
  flush(): Promise<void>;

  /** On return a key can be made durable, and every one that was given out is. @throws VaultAway */
  prove(): Promise<void>;

  /** On return what other processes have done to the keys holds here, and what this one has made is in the vault. @throws VaultAway */
  refresh(): Promise<void>;

  /**
   * Destroys keys, a bucket at a time. On return no copy that was reached has them, and no reader of this process; those of
   * others have them for ten seconds more. May be done again at any time.
   * @returns the copies that could not be reached, and still have them.
   */
  destroy(taken: readonly TakenKeys[]): Promise<string[]>;

  /** Notes an action beside the keys that it destroys. @returns the copies that could not be reached. */
  noteAction(body: object): Promise<string[]>;

  /**
   * Begins an epoch, and brings all key states under its key. On return no key of an older epoch is left, if every copy could
   * be reached: what was replaced opens no more, wherever a disk still holds it.
   * @returns the copies that could not be reached.
   */
  rotate(): Promise<string[]>;

  /** On return the rotation that was begun last is at its end, as `rotate` has it. */
  finishRotation(): Promise<string[]>;

  /** Of the newest names key. */
  names(): NameCipher;

  /** Adds a names key, which is the newest from now on. On return it is durable. @returns the copies that lack it still. */
  renewNames(): Promise<string[]>;

  /** Removes all names keys but the newest. @returns the copies that could not be reached, and may have the older ones. */
  endOldNames(): Promise<string[]>;

  /** Makes the key of a legal hold, or gives the one that is there. On return it is durable. @throws VaultAway */
  newHoldKey(action: string): Promise<KeyObject>;

  /** Undefined when it is destroyed, or was never made. */
  holdKey(action: string): KeyObject | undefined;

  /** On return this vault has the hold key as the other one has it, destroyed or not: for a mirror. @throws VaultAway */
  takeHoldKey(action: string, from: Pick<StoredKeys, 'holdKey'>): Promise<void>;

  /** Destroys the key of a hold; what was destroyed or never made is left so. @returns the copies that could not be reached. */
  destroyHold(action: string): Promise<string[]>;
}
