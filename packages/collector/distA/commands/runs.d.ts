import { Command } from 'commander';
import { type RunFilter } from '../catalogue/catalogue.js';
import { type Clock } from '../records/vocabulary.js';
export interface RunsOptions {
    readonly organisation?: string;
    readonly target?: string;
    readonly user?: string;
    readonly model?: string;
    readonly app?: string;
    readonly outcome?: string;
    readonly feedback?: string;
    readonly incomplete?: true;
    readonly conflict?: true;
    readonly failed?: true;
    readonly since?: string;
    readonly until?: string;
    readonly clock?: string;
    readonly limit?: string;
    readonly json?: true;
    readonly format?: string;
}
export interface RunsRequest {
    readonly filter: RunFilter & {
        readonly clock: Clock;
    };
    /** Infinity for all. */
    readonly limit: number;
    readonly form: 'table' | 'json' | 'csv';
}
export declare const DEFAULT_LIMIT = 20;
/** As it is typed. */
export declare const FEEDBACK_ASKED: string[];
/** @param now what the time of --outcome none:TIME counts back from. */
export declare function runsRequestFrom(options: RunsOptions, now: number): RunsRequest;
export declare function command(): Command;
