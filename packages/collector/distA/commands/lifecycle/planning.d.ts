import { type Plan } from './plan-file.js';
/** What a plan is asked for: one of these but `organisation` and `mentions`. */
export interface Asked {
    readonly subjects?: readonly string[] | undefined;
    /** Hexadecimal digits with which the id of each begins. */
    readonly runs?: readonly string[] | undefined;
    /** Ids in text form. */
    readonly events?: readonly string[] | undefined;
    /** The id of an erasure. */
    readonly late?: string | undefined;
    readonly certificates?: readonly Certified[] | undefined;
    readonly organisation?: string | undefined;
    readonly mentions: boolean;
}
/** What a certificate names. */
interface Certified {
    readonly log: string;
    readonly action: string;
    readonly events: readonly {
        readonly organisation: string;
        readonly id: string;
    }[];
}
/** @throws CommandFailure for what is not there, or stands in several organisations; StoreDamaged; the signal's reason. */
export declare function makePlan(dataDir: string, asked: Asked, signal: AbortSignal): Promise<Plan>;
export {};
