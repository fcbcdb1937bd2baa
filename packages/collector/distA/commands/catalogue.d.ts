import { type ClinicalRecord } from '@clinical-events/protocol';
import { Catalogue, type RecordSelection } from '../catalogue/catalogue.js';
import { type Cursor, type EventLog } from '../store/contract/events.js';
import { type GivenOut, type Access } from './access-log.js';
import { ProgressBar } from './terminal.js';
export interface CatalogueRequest {
    readonly dataDir: string;
    /** Nothing is shown of how far it is. */
    readonly quiet: boolean;
    /** Ends the update; its reason is thrown. */
    readonly signal: AbortSignal;
    /** How long another process is waited for that takes nothing in; tests make it short. */
    readonly waitMs?: number;
}
/**
 * On return the catalogue covers every event that was durable at the call. The caller closes it.
 * @throws CommandFailure when it cannot be made, when another process holds it, or when the log is damaged; the reason
 *   of the signal.
 */
export declare function openCatalogue(request: CatalogueRequest): Promise<CatalogueAccess>;
export declare class CatalogueAccess {
    #private;
    private readonly request;
    /** Closed with the catalogue. */
    readonly log: EventLog;
    /** Answers from one state of it until it is closed. */
    readonly catalogue: Catalogue;
    private constructor();
    /** @throws CatalogueFault, StoreDamaged, or the reason of the signal. */
    static open(request: CatalogueRequest, log: EventLog, directory: string): Promise<CatalogueAccess>;
    /** Behind the last entry that it covers. */
    get cursor(): Cursor;
    /**
     * Asks once more, of a catalogue that was rebuilt, when what is asked shows that it is damaged.
     * @param question must have given nothing out when it asks the catalogue.
     * @throws CommandFailure, or what the question throws.
     */
    ask<Answer>(question: (catalogue: Catalogue) => Answer | Promise<Answer>): Promise<Answer>;
    close(): Promise<void>;
}
export interface RunAccessOptions {
    readonly dataDir: string;
    readonly logAs: Access;
    /** Nothing is shown of how far it is. */
    readonly quiet: boolean;
    /** What is said when a signal ends it. */
    readonly interrupted: string;
}
/** What records are made from. */
export interface RecordSource {
    /** Up to date, and the same until the reading ends. */
    readonly catalogue: Catalogue;
    readonly log: EventLog;
}
export interface RunReading extends RecordSource {
    readonly givenOut: GivenOut;
    /** Aborted by a signal. */
    readonly signal: AbortSignal;
    readonly bar: ProgressBar;
}
/**
 * The reading counts as complete once `use` has returned.
 * @throws CommandFailure when there is no log, when it is damaged or shorter than a checkpoint says, when there is no
 *   catalogue to be had, or when the access cannot be logged.
 */
export declare function readRuns({ dataDir, logAs, quiet, interrupted }: RunAccessOptions, use: (reading: RunReading) => Promise<void>): Promise<void>;
/** Records that are made here, one after the other. */
export declare function recordsIn(source: RecordSource, selection: RecordSelection): AsyncGenerator<ClinicalRecord>;
/** The run of an event; null when it is of none, undefined when the log does not have it. */
export declare function runOfEvent({ catalogue, log }: RecordSource, organisation: string, eventId: string): Promise<string | null | undefined>;
/** For an answer that is empty by the time of receipt. */
export declare const BY_SENDERS = "by the senders' clocks there are some in that time, as after an import or a demo: --clock sender goes by these";
export interface NameFilter {
    readonly organisation?: string | undefined;
    /** MODEL_ID or MODEL_ID@VERSION. */
    readonly model?: string | undefined;
}
/**
 * Goes through the catalogue: for when nothing was found.
 * @returns a warning for each name that no record has, with the nearest one that one has.
 */
export declare function unknownNames(catalogue: Catalogue, { organisation, model }: NameFilter): string[];
/** The same for a command that has no catalogue open: nothing is said where none can be had. */
export declare function unknownNamesIn(dataDir: string, filter: NameFilter, signal: AbortSignal): Promise<string[]>;
