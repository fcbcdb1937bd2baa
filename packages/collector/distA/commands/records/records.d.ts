import { Command } from 'commander';
import type { RecordSelection } from '../../catalogue/catalogue.js';
import { type ExportFormat } from '../../records/exports/formats.js';
import type { Clock } from '../../records/vocabulary.js';
import { type AccessRequest } from './access-request.js';
export interface RecordsOptions {
    readonly run?: string;
    readonly subjectFile?: string;
    readonly withOthers?: true;
    readonly organisation?: string;
    readonly model?: string;
    readonly since?: string;
    readonly until?: string;
    readonly clock?: string;
    readonly after?: string;
    readonly incomplete?: true;
    readonly full?: true;
    readonly format?: string;
    readonly out?: string;
    readonly partition?: string;
    readonly json?: true;
}
export interface RecordsRequest {
    /** Its record id may be the beginning of one. */
    readonly selection: RecordSelection;
    /** Undefined for the readable text. */
    readonly format: (ExportFormat & {
        readonly name: string;
    }) | undefined;
    /** A file, or with `dayBy` a directory; undefined for standard output. */
    readonly out: string | undefined;
    /** The clock by whose days the records are told apart; undefined when they all go to one file. */
    readonly dayBy: Clock | undefined;
}
/** @param onTerminal whether standard output is one. */
export declare function requestFrom(options: RecordsOptions, onTerminal: boolean): RecordsRequest;
/** A request for access by a person. */
export declare function accessRequestFrom(options: RecordsOptions, onTerminal: boolean): AccessRequest | undefined;
export declare function command(): Command;
