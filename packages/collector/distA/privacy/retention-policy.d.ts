declare const MATCHED: readonly ["organisation", "kind", "model_id", "model_version"];
declare const AGES: readonly ["run_start", "last_event", "received_at"];
declare const UNITS: readonly ["run", "event"];
type Match = Readonly<Partial<Record<(typeof MATCHED)[number], readonly string[]>>>;
/** Undefined: for ever. */
type Keep = {
    readonly months: number;
    readonly days: number;
} | undefined;
interface Floor {
    readonly id: string;
    readonly match: Match;
    readonly keep: Keep;
}
interface Rule extends Floor {
    readonly unit: (typeof UNITS)[number];
    readonly isAboveFloors: boolean;
}
/** What a rule may ask of an event or a run; a model that is not known matches no rule that names one. */
export interface KeptFacts {
    readonly organisation: string;
    readonly kind?: string | undefined;
    readonly model_id?: string | undefined;
    readonly model_version?: string | undefined;
}
/** It is no policy. @param faults one line each, with the place in it. */
export declare class PolicyFault extends Error {
    readonly faults: readonly string[];
    name: string;
    constructor(faults: readonly string[]);
}
export declare class RetentionPolicy {
    #private;
    readonly name: string;
    /** From when on an event is kept: of a run its start or its last event, or each event by itself. */
    readonly ageFrom: (typeof AGES)[number];
    private readonly rules;
    private readonly floors;
    constructor(name: string, 
    /** From when on an event is kept: of a run its start or its last event, or each event by itself. */
    ageFrom: (typeof AGES)[number], rules: readonly Rule[], floors: readonly Floor[]);
    /** The rules by which everything is due as soon as it has come. */
    keepingNothing(): string[];
    /** The rule that decides, and whether it is about each event by itself. */
    ruleFor(facts: KeptFacts): {
        readonly id: string;
        readonly unit: 'run' | 'event';
    };
    /** Until when it is kept, in ms since 1970; undefined for ever. @param from its age counts from then. */
    keptUntil(facts: KeptFacts, from: number): number | undefined;
    /**
     * The floor that holds it longest, when that is not over. A run's events are held by their own age, not by the run's.
     * @param received when the event came.
     */
    heldBy(facts: KeptFacts, received: number, now: number): {
        id: string;
        until: number;
    } | undefined;
    /** Whether the rule that decides is above the floors, as for test data. */
    isAboveFloors(facts: KeptFacts): boolean;
}
/** @throws PolicyFault with every fault. */
export declare function parsePolicy(text: string): RetentionPolicy;
/** The same of JSON that was parsed, as an action has it. @throws PolicyFault */
export declare function policyFrom(read: unknown): RetentionPolicy;
/** `until 2027-01-01`, or `for ever`. */
export declare function untilText(until: number): string;
export {};
