/**
 * A log that several collectors write to, and what the collector needs of its driver. The driver is a package of its own
 * that `store/open.ts` loads by the scheme of an address; it reads the address, and the collector only passes it on.
 */
import type { Actions } from '../../privacy/actions.js';
import type { KeyPlaces } from '../../privacy/key-directories.js';
import type { PayloadKeysOptions, TakenKeys } from '../../privacy/payload-keys.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import type { AccessLogStore } from './access-log.js';
import type { Candidate, Committed, SharedGauges, Store } from './events.js';
import type { StoreFinding } from '../findings.js';
import type { SharedKeyStore, SharedPublicKeys } from './keys.js';
import type { OpenSharedStore } from './opened.js';
import type { HoldRecords, LifecycleKeys, Requests, SharedRequests } from './requests.js';
import type { TreeStore } from './tree.js';

export interface StoreDriver {
  /** Why the text is no address of a log; undefined when it is one. The reason does not repeat the text. */
  addressFault(address: string): string | undefined;
  /**
   * All on one connection.
   * @param keys where those of its payloads are; without them what is encrypted stays closed.
   * @throws when the database cannot be reached, or holds no log that this collector can read; KeysUnfit, KekFault.
   */
  openToRead(address: string, keys?: KeyPlaces): Promise<OpenSharedStore>;
  /** The same for the time of `work`, with a directory of what is public of the log. */
  withView<Result>(
    address: string,
    keys: KeyPlaces | undefined,
    work: (view: SharedView) => Promise<Result>,
  ): Promise<Result>;
  /** What a mirror asks of the collectors of its log. @throws when the database cannot be reached, or holds no log. */
  openRequests(address: string): Promise<SharedRequests>;
  /** For a collector among others. Closing it closes its tree. */
  openToWrite(address: string, options: SharedStoreOptions): Promise<SharedStore>;
  /** The API keys, for writing. */
  openKeys(address: string): SharedKeyStore;
  /** How the database fares, without a look at the events. */
  examine(address: string): Promise<StoreFinding[]>;
}

export interface SharedView {
  readonly shared: OpenSharedStore;
  /** Its keys and the checkpoints that are kept, as a data directory has them. For its owner alone, and gone afterwards. */
  readonly dataDir: string;
}

export interface SharedStoreOptions {
  /** Of this program, for people who look at the table of collectors. */
  readonly version: string;
  /** The directory of private keys, which also has the key that the collectors of a log seal their batches with. */
  readonly signingKeys: string;
  /** Where the keys of payloads are; undefined where these are not encrypted. */
  readonly keysOf: (log: NotedKeys) => Promise<WantedKeys | undefined>;
  /** Something is degraded, but nothing is lost and nothing is refused. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Events that were acknowledged are gone. */
  readonly onLost: (reason: string) => void;
  readonly gauges?: SharedGauges;
  /** Told what has its place by now. */
  readonly onSequenced?: (sequenced: Sequenced) => void;
}

/** What a log says of the keys of its payloads. */
export interface NotedKeys {
  readonly ledgerId: string;
  /** Where they are; undefined while payloads are not encrypted. */
  readonly noted: string | undefined;
  /** Whether there is an encrypted payload among the newest, or one that was taken out. */
  readonly isEncrypted: boolean;
  /** Nothing is stored yet. */
  readonly isNew: boolean;
}

/** Keys of payloads that are to be opened: one place, the address of their database. */
export interface WantedKeys extends Omit<PayloadKeysOptions, 'vault' | 'kek'> {
  readonly places: KeyPlaces;
  /** Called once they are open. */
  readonly onOpened: () => Promise<void>;
}

/** What the log holds that has its place. */
export interface Sequenced {
  readonly entries: number;
  readonly ownEntries: number;
  readonly bytes: number;
  /** Of each batch that got its place just now, how long ago it was committed, in milliseconds. */
  readonly agesMs?: readonly number[];
}

/** As a start finds the log. */
export interface FoundLog {
  readonly ledgerId: string;
  readonly events: number;
  readonly entries: number;
  readonly bytes: number;
}

export interface SharedStore extends Store {
  readonly opened: FoundLog;
  /** What has its place. */
  readonly committed: Committed;
  readonly tree: TreeStore;
  readonly publicKeys: SharedPublicKeys;
  readonly accessLog: AccessLogStore;
  readonly requests: Requests;
  readonly holdRecords: HoldRecords;
  /** By their kind, the bodies of the newest entries of the log's own. */
  readonly newestOwn: ReadonlyMap<number, Buffer>;
  /** Those that are in the log, as they were known last. */
  readonly actions: Actions;
  /** Undefined where payloads are not encrypted. */
  readonly keys: LifecycleKeys | undefined;
  /** Stores a head of the access log, unless the newest in the log says more. @param entry with the head as its body. */
  appendAccessHead(entry: Candidate): Promise<void>;
  /** On return the action has its place in the log, and is among `actions`. */
  appendAction(entry: Candidate): Promise<void>;
  /** Whether it is on this collector to do what was asked for: one of all does. */
  isOnUs(): Promise<boolean>;
  /** On return the actions of others are known. */
  refreshActions(): Promise<void>;
  /** By what keys events are encrypted. */
  keysOf(sequences: SequenceSet): Promise<TakenKeys[]>;
  /** Of each of some lists of keys those by which events of the log are encrypted that no action has erased yet. */
  keysIn(lists: readonly (readonly TakenKeys[])[], signal: AbortSignal): Promise<TakenKeys[][]>;
}
