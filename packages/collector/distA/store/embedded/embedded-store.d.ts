import { type Files, type HeldFile } from '../../files.js';
import { type Candidate, type Outcome, type Store } from '../contract/events.js';
import { CommittedEntries } from './committed-entries.js';
import { type Actions } from '../../privacy/actions.js';
import { type KeyWriter, type TakenKeys } from '../../privacy/key-directory.js';
import type { Suite } from '../../privacy/sealing.js';
import { type IdIndexStats } from './id-index/id-index.js';
import { type TornTail } from './segment-log.js';
export interface Encryption {
    readonly suite: Suite;
    /**
     * @param isNeeded whether the newest events are encrypted, so that their keys have to be there.
     * @param isNew whether nothing is stored yet.
     */
    readonly openKeys: (ledgerId: string, isNeeded: boolean, isNew: boolean) => Promise<KeyWriter | undefined>;
}
export interface EmbeddedStoreOptions {
    readonly directory: string;
    readonly segmentBytes: number;
    /** Of a ledger that is begun; a random one when not given. */
    readonly ledgerId?: string;
    /** How payloads are encrypted; not at all when it is not given. */
    readonly encryption?: Encryption;
    /** See SegmentLogOptions. */
    readonly lock?: HeldFile | undefined;
    /** A signed checkpoint says how many entries were durable once; 0 when there is none. */
    readonly vouchedEntries?: number;
    /** Replaced by tests that make the disk fail. */
    readonly files?: Files;
    /** Something is degraded, but nothing is lost and nothing is refused. */
    readonly onTrouble: (what: string, error: unknown) => void;
    /**
     * Called after each batch that was flushed, with how long the flush took, in milliseconds, and what the log holds
     * now.
     */
    readonly onFlushed?: (milliseconds: number, held: Held) => void;
}
/** What the log holds. */
export interface Held {
    readonly events: number;
    /** With the log's own entries. */
    readonly entries: number;
    /** Of all frames. */
    readonly bytes: number;
}
/** What opening found and did. */
export interface Opened extends Held {
    readonly segments: number;
    /** Random, the same for the life of the ledger; 32 hexadecimal digits. */
    readonly ledgerId: string;
    /** Entries that were read again because the index did not cover them. */
    readonly replayed: number;
    readonly tornTail: TornTail | undefined;
}
export declare class EmbeddedStore implements Store {
    #private;
    private readonly list;
    /** Undefined where payloads are not encrypted. */
    readonly keys: KeyWriter | undefined;
    private readonly options;
    readonly opened: Opened;
    readonly concurrency = 1;
    readonly outlivesDoubt = false;
    private constructor();
    /**
     * Opens the ledger in `directory`, or begins one. On return the log is whole, the index covers all of it, and no key that
     * an action destroys is in any directory of keys that can be reached.
     * The caller holds the directory's lock.
     * @throws StoreDamaged when the log does not hold what was written to it.
     */
    static open(options: EmbeddedStoreOptions): Promise<EmbeddedStore>;
    append(batch: readonly Candidate[]): Outcome[] | Promise<Outcome[]>;
    /** By the descriptors that it writes by. */
    get committed(): CommittedEntries;
    /** By kind, the body of the newest entry of the log's own in the last segment, as it was when it was opened. */
    get newestOwn(): ReadonlyMap<number, Buffer>;
    /** Those that are in the log. */
    get actions(): Actions;
    /**
     * Of each of some lists of keys those by which events of the log are encrypted that no action has erased yet, or were
     * until their payloads were taken out of the file. Reads the segments in which they may be. A segment that cannot be read
     * is told of and passed over: nobody opens its events.
     * @returns of each list what was found, or less where it was aborted.
     */
    keysIn(lists: readonly (readonly TakenKeys[])[], signal: AbortSignal): Promise<TakenKeys[][]>;
    look(): void;
    prove(): Promise<void>;
    proveKeys(): Promise<void>;
    /** How the id index fares. */
    indexStats(): IdIndexStats;
    /** A second call only waits for the first: by then the descriptor may belong to another file. */
    close(): Promise<void>;
}
