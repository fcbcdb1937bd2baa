export interface Person {
    readonly name: string;
    /** Whether the operating system knows by a login that it is this one; false of a name that was only stated. */
    readonly isProven: boolean;
    /** RFC 3339, in UTC. */
    readonly at: string;
}
/** Events that the plan named and that were not erased, for one reason. */
export interface LeftEvents {
    readonly why: 'hold' | 'floor' | 'not marked' | 'stored in the clear';
    /** The name of the hold, the id of the floor, or the reason why the plan did not mark them. */
    readonly of?: string;
    /** RFC 3339; of a floor, and of a hold that has an end. */
    readonly until?: string;
    readonly events: number;
}
export interface ErasureFacts {
    readonly action: string;
    /** Reference of the case. */
    readonly case: string;
    readonly planner: Person;
    readonly applier: Person;
    readonly left: readonly LeftEvents[];
    /** Erased events that mention the person and are of runs about others. */
    readonly mentions: number;
    /** Erased events that a floor kept, which was overridden. */
    readonly overridden: readonly Omit<LeftEvents, 'why'>[];
    /** Marks that a person set and removed after the plan was made. */
    readonly setByHand: {
        readonly marked: number;
        readonly unmarked: number;
    };
    /** Payloads that the plan could not open. */
    readonly unread: number;
}
/**
 * On return the record is on stable storage.
 * @returns what the action says of it. @throws KekFault, KeysUnfit
 */
export declare function keepErasureRecord(dataDir: string, facts: ErasureFacts): Promise<string>;
/** On return an erasure that was refused or withdrawn has no record. */
export declare function dropErasureRecord(dataDir: string, action: string): void;
/**
 * @param record what the action says of it.
 * @returns undefined when it is missing, was changed, or cannot be opened by the keys that are here.
 */
export declare function erasureRecordOf(dataDir: string, action: string, record: string): ErasureFacts | undefined;
