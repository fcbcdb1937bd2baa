/** Opened stores. */
import type { Envelope } from '@clinical-events/protocol';
import type { StoredKeys } from '../../privacy/stored-keys.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import type { FindingList } from '../findings.js';
import type { EntryLog, EventLog, PayloadState } from './events.js';
import type { TreeReader } from './tree.js';
import type { AccessLogStore } from './access-log.js';
import type { SharedPublicKeys } from './keys.js';
import type { HoldRecords } from './requests.js';

/** A data directory, opened for reading, with or without a running collector. */
export interface OpenStore {
  /** Must be closed after use. */
  readonly events: EventLog;
  /** Must be closed after use. */
  readonly tree: TreeReader;
  readonly accessLog: AccessLogStore;
}

/** A log that several collectors write to, opened for reading. */
export interface OpenSharedStore extends Omit<OpenStore, 'events'> {
  readonly events: EntryLog;
  /** The database of its payload keys; undefined if payloads are not encrypted. */
  readonly encryptionKeys: string | undefined;
  readonly publicKeys: SharedPublicKeys;
  readonly holdRecords: HoldRecords;
  /** The current payload keys; undefined if they are not opened. */
  storedKeys(): Promise<StoredKeys | undefined>;
  /** The kept checkpoints, ordered by size. */
  checkpoints(): Promise<{ readonly size: number; readonly note: string }[]>;
  /** The rows of the log, for the copy that `verify` reads. */
  evidence(): Evidence;
  /** Must be called once. */
  close(): Promise<void>;
}

/** A row of a log in a database. */
export interface EvidenceRow {
  readonly sequence: number;
  /** Undefined if it cannot be decoded. */
  readonly envelope: Envelope | undefined;
  /** The commitment in its leaf, or in the row if the leaf belongs to another entry. */
  readonly commitment: Buffer;
  readonly state: PayloadState;
  /** Salt and body; for an encrypted payload their sealed form in a frame (embedded/sealed-frame.ts). */
  readonly stored: Buffer;
  /** Whether the row matches its leaf. */
  readonly fits: boolean;
  /** The place of an encrypted payload's key. */
  readonly place: number | undefined;
}

/** Results from the tables of a log alone. */
export interface TableFindings {
  /** Number of entries without a position in the log. */
  readonly unsequenced: number;
}

/** The database, for the audit of a log in it. */
export interface Evidence {
  /** The existing rows in order, up to the end of the log. */
  rows(): AsyncGenerator<readonly EvidenceRow[], void>;
  /** Number of entries of the log; known when all rows were read. */
  readonly entries: number;
  /** Keys, which are found by place instead of sequence; undefined if they are not opened. */
  readonly keys: StoredKeys | undefined;
  /** Reads changes of the keys. */
  refreshKeys(): Promise<void>;
  /** All events erased so far, including by actions after the rows were read. */
  erasedByNow(): Promise<SequenceSet>;
  /** Adds findings from the tables alone. Call when all rows were read. */
  tell(findings: FindingList): Promise<TableFindings>;
}
