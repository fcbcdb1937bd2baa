/** The inputs and results of the audit of a whole log for `collector verify`. It continues past damage. */
import type { SignedRoot } from '../tree/audit.js';
import type { Files } from '../files.js';
import type { Actions } from '../privacy/actions.js';
import type { SequenceSet } from '../privacy/sequence-set.js';
import type { TakenKeys } from '../privacy/payload-keys.js';
import type { StoredKeys } from '../privacy/stored-keys.js';

/** A checkpoint of this log. */
export interface CheckedRoot extends SignedRoot {
  readonly origin: string;
  /** The first source in which it was found. */
  readonly source: string;
  readonly file: string;
  /** Whether an equal checkpoint was kept outside of the data directory. */
  outside: boolean;
}

/** The checkpoints that a log is compared with. */
export interface AuditedRoots {
  readonly roots: readonly CheckedRoot[];
  /** The largest one in the data directory. */
  readonly newest: CheckedRoot | undefined;
}

/** Receives each head of the access log in the log. */
export interface HeadListener {
  head(sequence: number, body: Buffer): void;
  /** Reads the lines that pending heads need. Called in intervals. */
  settle(): Promise<void>;
}

/** The entries after the largest checkpoint. */
export interface Waiting {
  /** The first sequence. */
  readonly sequence: number;
  /** First and last time of receipt, in ms since 1970. */
  readonly oldest: number;
  newest: number;
}

export interface AuditOptions {
  readonly dataDir: string;
  readonly files: Files;
  /** Called with the number of events read so far, and the approximate total. */
  readonly onProgress: (events: number, of: number) => void;
  /** Keys that were destroyed by actions that are not in this log. */
  readonly takenSince?: readonly TakenKeys[] | undefined;
  /** Set for a log in a database, whose copy is in the data directory. */
  readonly shared?: SharedAudit | undefined;
}

/** The parts of a log in a database that are not in its copy. */
export interface SharedAudit {
  /** Undefined if keys are not opened. */
  readonly keys: StoredKeys | undefined;
  /** Reads changes of the keys. */
  refreshKeys(): Promise<void>;
  /** All events erased so far, including by actions after the copy was made. */
  erasedByNow(): Promise<SequenceSet>;
}

/** The remaining facts of an erased event. */
export interface ErasedEvent {
  readonly sequence: number;
  readonly organisation: string;
  /** The id of its record. */
  readonly recordId: string;
  /** The parent of its record, if the event determines it: for a start, or an event without a run. */
  readonly parentId: string | undefined;
}

export interface AuditedLog {
  /** Number of events. */
  readonly events: number;
  /** Number of events and of the log's own entries. */
  readonly entries: number;
  /** Number of entries after the largest checkpoint. */
  readonly unsigned: number;
  readonly waiting: Waiting | undefined;
  /** For a log in a database: entries without a position in the log, and quarantined batches. */
  readonly unsequenced: number;
  readonly quarantined: number;
  /** Bytes of all frames. */
  readonly bytes: number;
  /** The sentence about a torn tail, which is a note. */
  readonly torn: string | undefined;
  /** Number of encrypted payloads that were not opened because there is no key directory. */
  readonly unopened: number;
  /** Number of erased events by reason. */
  readonly erased: Readonly<Record<string, number>>;
  /** Number of erased events whose keys may still exist. */
  readonly erasing: number;
  /** The actions of the log, and the remaining facts of erased events, in order. */
  readonly erasures: {
    readonly actions: Actions;
    readonly events: (of: SequenceSet) => Iterable<ErasedEvent> | AsyncIterable<ErasedEvent>;
  };
}
