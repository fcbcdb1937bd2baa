/**
 * The contract of a driver for a log that several collectors write to. The driver is a separate package,
 * which `store/open.ts` loads by the scheme of an address; only the driver interprets the address.
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
  /** The fault of an address; undefined if it is valid. The text does not repeat the address. */
  addressFault(address: string): string | undefined;
  /**
   * Opens a log for reading on one connection.
   * @param keys the locations of its payload keys; without them encrypted payloads are not opened.
   * @throws if the database cannot be reached, or contains no log that this collector can read; KeysUnfit,
   * KekFault.
   */
  openToRead(address: string, keys?: KeyPlaces): Promise<OpenSharedStore>;
  /** Opens a log during `work`, with a directory of its public files. */
  withView<Result>(
    address: string,
    keys: KeyPlaces | undefined,
    work: (view: SharedView) => Promise<Result>,
  ): Promise<Result>;
  /**
   * Opens the requests of a mirror to collectors.
   * @throws if the database cannot be reached, or contains no log.
   */
  openRequests(address: string): Promise<SharedRequests>;
  /** Opens a log for a collector among others. Closing it closes its tree. */
  openToWrite(address: string, options: SharedStoreOptions): Promise<SharedStore>;
  /** Opens the API keys for writing. */
  openKeys(address: string): SharedKeyStore;
  /** Checks the database without reading events. */
  examine(address: string): Promise<StoreFinding[]>;
}

export interface SharedView {
  readonly shared: OpenSharedStore;
  /**
   * A temporary, private directory with its public keys and kept checkpoints, laid out like a data directory.
   */
  readonly dataDir: string;
}

export interface SharedStoreOptions {
  /** The version of this program, for the table of collectors. */
  readonly version: string;
  /**
   * The directory of private keys, which also contains the key that seals the batches of all collectors of a
   * log.
   */
  readonly signingKeys: string;
  /** Returns the payload keys to open; undefined if payloads are not encrypted. */
  readonly keysOf: (log: NotedKeys) => Promise<WantedKeys | undefined>;
  /** Called when the store is degraded, but nothing is lost or refused. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Called when acknowledged events are lost. */
  readonly onLost: (reason: string) => void;
  readonly gauges?: SharedGauges;
  /** Called when batches got their positions in the log. */
  readonly onSequenced?: (sequenced: Sequenced) => void;
}

/** The information of a log about its payload keys. */
export interface NotedKeys {
  readonly ledgerId: string;
  /** The location of the keys; undefined if payloads are not encrypted. */
  readonly noted: string | undefined;
  /** Whether an encrypted or removed payload is among the newest. */
  readonly isEncrypted: boolean;
  /** Whether the log is empty. */
  readonly isNew: boolean;
}

/** Payload keys to open: one place, the address of their database. */
export interface WantedKeys extends Omit<PayloadKeysOptions, 'vault' | 'kek'> {
  readonly places: KeyPlaces;
  /** Called when they are open. */
  readonly onOpened: () => Promise<void>;
}

/** The size of the sequenced part of a log. */
export interface Sequenced {
  readonly entries: number;
  readonly ownEntries: number;
  readonly bytes: number;
  /** For each batch that was just sequenced, the time since its commit, in milliseconds. */
  readonly agesMs?: readonly number[];
}

/** The log at a start. */
export interface FoundLog {
  readonly ledgerId: string;
  readonly events: number;
  readonly entries: number;
  readonly bytes: number;
}

export interface SharedStore extends Store {
  readonly opened: FoundLog;
  /** The sequenced entries. */
  readonly committed: Committed;
  readonly tree: TreeStore;
  readonly publicKeys: SharedPublicKeys;
  readonly accessLog: AccessLogStore;
  readonly requests: Requests;
  readonly holdRecords: HoldRecords;
  /** By kind, the bodies of the newest own entries of the log. */
  readonly newestOwn: ReadonlyMap<number, Buffer>;
  /** The actions in the log at the last refresh. */
  readonly actions: Actions;
  /** Undefined if payloads are not encrypted. */
  readonly keys: LifecycleKeys | undefined;
  /** Stores a head of the access log, unless a newer one is in the log. @param entry the head is its body. */
  appendAccessHead(entry: Candidate): Promise<void>;
  /** Stores an action. On return it has its position in the log and is in `actions`. */
  appendAction(entry: Candidate): Promise<void>;
  /** Whether this collector is the one that carries out requests. */
  isOnUs(): Promise<boolean>;
  /** Adds the actions of other collectors to `actions`. */
  refreshActions(): Promise<void>;
  /** The keys of events. */
  keysOf(sequences: SequenceSet): Promise<TakenKeys[]>;
  /** Selects from each list the keys of events in the log that no action has erased. */
  keysIn(lists: readonly (readonly TakenKeys[])[], signal: AbortSignal): Promise<TakenKeys[][]>;
}
