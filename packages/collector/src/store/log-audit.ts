/** The audit of a whole log for `collector verify`: what goes in and what comes out. It continues past damage. */
import type { SignedRoot } from '../tree/audit.js';
import type { Files } from '../files.js';
import type { Actions } from '../privacy/actions.js';
import type { SequenceSet } from '../privacy/sequence-set.js';
import type { TakenKeys } from '../privacy/payload-keys.js';
import type { StoredKeys } from '../privacy/stored-keys.js';

/** A checkpoint of this log. */
export interface CheckedRoot extends SignedRoot {
  readonly origin: string;
  /** Where it was found first. */
  readonly source: string;
  readonly file: string;
  /** Whether it, or another one that says the same, was kept outside of the data directory. */
  outside: boolean;
}

/** The checkpoints that a log is held against. */
export interface AuditedRoots {
  readonly roots: readonly CheckedRoot[];
  /** The largest of the data directory. */
  readonly newest: CheckedRoot | undefined;
}

/** Is called with each head of the access log that stands in the log. */
export interface HeadListener {
  head(sequence: number, body: Buffer): void;
  /** To be awaited now and then: what heads wait for is read. */
  settle(): Promise<void>;
}

/** Entries behind the largest checkpoint. */
export interface Waiting {
  /** Of the first of them. */
  readonly sequence: number;
  /** When it was received, and when the latest of them was, in ms since 1970. */
  readonly oldest: number;
  newest: number;
}

export interface AuditOptions {
  readonly dataDir: string;
  readonly files: Files;
  /** Events read so far, and of how many, about. */
  readonly onProgress: (events: number, of: number) => void;
  /** Keys that were destroyed by actions which this log does not have: who asks knows that. */
  readonly takenSince?: readonly TakenKeys[] | undefined;
  /** Of a log in a database, whose copy is in the data directory. */
  readonly shared?: SharedAudit | undefined;
}

/** What is not in the copy of a log in a database. */
export interface SharedAudit {
  /** Undefined where keys are not opened. */
  readonly keys: StoredKeys | undefined;
  /** On return the keys are those that are there now. */
  refreshKeys(): Promise<void>;
  /** What actions have erased by now, also those that came after the log was copied. */
  erasedByNow(): Promise<SequenceSet>;
}

/** What is left of an event that was erased. */
export interface ErasedEvent {
  readonly sequence: number;
  readonly organisation: string;
  /** Of the record that it is of. */
  readonly recordId: string;
  /** The event that it makes its record hang on, of a start or of an event without a run: a run has the id of the event that opens it. */
  readonly parentId: string | undefined;
}

export interface AuditedLog {
  /** How many events stand in the log. */
  readonly events: number;
  /** With the log's own entries. */
  readonly entries: number;
  /** How many of them lie behind the largest checkpoint. */
  readonly unsigned: number;
  readonly waiting: Waiting | undefined;
  /** Of a log in a database: entries that have no place in it yet, and batches that are quarantined. */
  readonly unsequenced: number;
  readonly quarantined: number;
  /** How many bytes of events there are. */
  readonly bytes: number;
  /** What is said of a torn tail, which is a note. */
  readonly torn: string | undefined;
  /** How many encrypted payloads were not opened, because there is no key directory. */
  readonly unopened: number;
  /** How many events were erased, by the reason; and of how many keys may be left as yet. */
  readonly erased: Readonly<Record<string, number>>;
  readonly erasing: number;
  /** The actions of the log, and what is left of these events, in their order. */
  readonly erasures: {
    readonly actions: Actions;
    readonly events: (of: SequenceSet) => Iterable<ErasedEvent> | AsyncIterable<ErasedEvent>;
  };
}
