import { type ProofVerdict } from '@clinical-events/protocol/verify';
import { Command } from 'commander';
import { type NoteKey } from '../integrity/note-signing.js';
type Valid = Extract<ProofVerdict, {
    valid: true;
}>;
/** A witness that has cosigned the checkpoint, and when, by its own clock: seconds since 1970 UTC. */
export interface Cosigned {
    readonly witness: NoteKey;
    readonly time: number;
}
/** For scripts; the names are a promise. */
export declare function describe(verdict: Valid, body: Buffer | undefined, cosigned: readonly Cosigned[]): object;
/** For people who have to rely on it, and may not know how it works. */
export declare function report(verdict: Valid, body: Buffer | undefined, proof: string, cosigned: readonly Cosigned[]): string;
export declare function command(): Command;
export {};
