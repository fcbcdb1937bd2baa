import { type Actions } from '../privacy/actions.js';
import type { StoredKeys, TakenKeys } from '../privacy/key-directory.js';
import { SequenceSet, type SequenceStretch } from '../privacy/sequence-set.js';
import { type AuditedLog, type ErasedEvent, type FindingList, type VerifyFinding } from './log-audit.js';
export interface KeysFound {
    readonly actions: Actions;
    /** Events whose key is not to be had, or whose payload was taken out. */
    readonly keyless: SequenceSet;
    /** Events that could not be read. */
    readonly unread: SequenceSet;
    /** By which it is judged; undefined where there are none. */
    readonly keys: Pick<StoredKeys, 'noted'> | undefined;
    /** What actions behind the end of the log, as it was read, have erased. */
    readonly later: SequenceSet;
    /** Of `shouldBeGone` what opened when it was read once more. */
    readonly back: SequenceSet;
}
/**
 * Events that opened, and an action says that they do not any more. It may have come after they were read: they are to be
 * read once more.
 */
export declare function shouldBeGone({ actions, keyless, unread, keys, }: Omit<KeysFound, 'later' | 'back'>): SequenceSet;
/** Events without a key that an erasure explains which the log does not have. Numbers are given again, and keys are not. */
export declare class ErasedElsewhere {
    #private;
    private readonly keys;
    constructor(keys: readonly TakenKeys[]);
    /** @param key which is missing; undefined where nobody can say which it was. */
    meet(sequence: number, key: {
        tag: number;
        organisation: string;
        place?: number;
    } | undefined): void;
    /** Of the events that were met. */
    get explained(): SequenceSet;
}
/**
 * Tells events that have no key though no action has taken it, and those whose keys are there though one has. Where there
 * are no keys at all neither can be told. What lies beside the keys is signed by nobody, and explains nothing.
 */
export declare function tellLifecycle({ actions, keyless, keys, later, back }: Omit<KeysFound, 'unread'>, findings: FindingList): Pick<AuditedLog, 'retired' | 'retiring' | 'quarantined'>;
/** What an envelope says of an event that was erased; undefined when it cannot be read. */
export declare function erasedEvent(sequence: number, envelope: Buffer): ErasedEvent | undefined;
/** Events that one action has erased while holds stood. */
interface ErasedUnderHolds extends SequenceStretch {
    readonly action: string;
    /** By the actions with which they began. */
    readonly holds: readonly string[];
}
/** In the order of their events. Of several actions over one event the first counts. */
export declare function erasedUnderHolds(actions: Actions): readonly ErasedUnderHolds[];
/** What a hold holds, as far as an envelope can tell. */
export interface HeldThings {
    readonly name: string;
    readonly organisations: ReadonlySet<string>;
    /** By their ids; with the runs nested directly in them. */
    readonly runs: ReadonlySet<string>;
    /** What it met when it began. */
    readonly events: SequenceSet;
}
/**
 * What was erased though a hold was on it, or though one stood of which nobody can tell what it held.
 * @param holds by the actions with which they began; one whose record is gone or changed is missing.
 * @param events what is left of the events that were erased under holds, in their order.
 */
export declare function heldFindings(erased: readonly ErasedUnderHolds[], holds: ReadonlyMap<string, HeldThings>, events: Iterable<ErasedEvent> | AsyncIterable<ErasedEvent>): AsyncGenerator<VerifyFinding>;
export {};
