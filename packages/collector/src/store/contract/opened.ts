/** What is opened together. */
import type { Envelope } from '@clinical-events/protocol';
import type { StoredKeys } from '../../privacy/stored-keys.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import type { FindingList } from '../findings.js';
import type { EntryLog, EventLog, PayloadState } from './events.js';
import type { TreeReader } from './tree.js';
import type { AccessLogStore } from './access-log.js';
import type { SharedPublicKeys } from './keys.js';
import type { HoldRecords } from './requests.js';

/** What is stored in a data directory, for reading, beside a collector or without one. */
export interface OpenStore {
  /** To be closed by anyone who has read events or looked for some. */
  readonly events: EventLog;
  /** To be closed by anyone who has read hashes. */
  readonly tree: TreeReader;
  readonly accessLog: AccessLogStore;
}

/** Of a log that several collectors write to. */
export interface OpenSharedStore extends Omit<OpenStore, 'events'> {
  readonly events: EntryLog;
  /** The database of the keys of its payloads; undefined where these are not encrypted. */
  readonly encryptionKeys: string | undefined;
  readonly publicKeys: SharedPublicKeys;
  readonly holdRecords: HoldRecords;
  /** The keys of its payloads as they are now; undefined where they are not opened. */
  storedKeys(): Promise<StoredKeys | undefined>;
  /** Checkpoints that stay when newer ones come, by their size. */
  checkpoints(): Promise<{ readonly size: number; readonly note: string }[]>;
  /** The log as its rows are, for the copy that `verify` reads. */
  evidence(): Evidence;
  /** To be called once. */
  close(): Promise<void>;
}

/** A row of a log in a database, as it is. */
export interface EvidenceRow {
  readonly sequence: number;
  /** Undefined if it cannot be decoded. */
  readonly envelope: Envelope | undefined;
  /** By its leaf; by the row where the leaf is of another. */
  readonly commitment: Buffer;
  readonly state: PayloadState;
  /** Salt and body; of an encrypted payload what its frame would hold in place of them (embedded/sealed-frame.ts). */
  readonly stored: Buffer;
  /** Whether its leaf commits to it. */
  readonly fits: boolean;
  /** By which the key of an encrypted payload is found. */
  readonly place: number | undefined;
}

/** What is found of a log by its tables alone. */
export interface TableFindings {
  /** Entries that have no place in the log. */
  readonly unsequenced: number;
}

/** What the audit of a log in a database asks the database. */
export interface Evidence {
  /** In their order, up to the end of the log. A row that is not there is left out. */
  rows(): AsyncGenerator<readonly EvidenceRow[], void>;
  /** How many entries the log says that it has; known when all rows were read. */
  readonly entries: number;
  /** Undefined where keys are not opened. They are found by places, not by sequences. */
  readonly keys: StoredKeys | undefined;
  /** On return the keys are those that are there now. */
  refreshKeys(): Promise<void>;
  /** On return it is known what actions have erased by now: also those that came after the rows were read. */
  erasedByNow(): Promise<SequenceSet>;
  /** Adds what the tables alone can say. To be called when all rows were read. */
  tell(findings: FindingList): Promise<TableFindings>;
}
