/** What an update knows of the tables while it writes them. */
import type { DatabaseSync } from 'node:sqlite';
import { type EventLog, type Place } from '../store/contract/events.js';
import { Names } from './names.js';
import { RunIds } from './run-ids.js';
import { Statements } from './statements.js';
import { TallyChanges } from './tally.js';
/** A row of `event`, but for when it was sent. */
export interface EventRow extends Place {
    readonly sequence: number;
    readonly kind: number;
    readonly received: number;
}
/** A run of which nothing is written yet. */
export interface NewRun {
    readonly organisation: number;
    /** 16 bytes in Latin-1. */
    readonly id: string;
    readonly events: EventRow[];
}
export declare class Tables {
    #private;
    readonly database: DatabaseSync;
    readonly statements: Statements;
    readonly names: Names;
    readonly runs: RunIds;
    readonly tally: TallyChanges;
    /** Of a batch, by their rows: they are written once they are summed. */
    readonly newRuns: Map<number, NewRun>;
    constructor(database: DatabaseSync, cipher: EventLog['names']);
    /** False when no record awaits the event whose id stands there. */
    mayBeAwaited(source: Buffer, at: number): boolean;
    /** To be called when a transaction has begun: what another connection has changed meanwhile is not known. */
    begin(): void;
    /** After a rollback. */
    forget(): void;
    meta(name: string): unknown;
    setMeta(name: string, value: number | string | Uint8Array): void;
    addEvent(row: number, event: EventRow, sent: number | null): void;
    /** The row of an event that names no run and opens none; undefined when no such event was taken in. */
    rowOfRunless(organisation: number, event: Uint8Array): number | undefined;
    /** The run of such an event: null where its record has none, undefined when no such event was taken in. */
    recordOfRunless(organisation: number, event: Uint8Array): string | null | undefined;
    /** Notes that a row has to be looked at again when the event comes, or becomes part of a run. */
    await(organisation: number, event: Uint8Array, row: number): void;
}
