import type { Command } from 'commander';
import type { Exchange } from '../../ingest/request.js';
import type { Fault } from '../../ledger/examine.js';
import type { LineWriter } from './log.js';
export declare class Trial {
    #private;
    private readonly out;
    private constructor();
    /**
     * On return the command's options name a directory of the trial's own, which is removed when the process ends.
     * @throws ConfigError when an option names something that outlives it.
     */
    static begin(serve: Command, out: LineWriter): Trial;
    /** Prints what a trial is. From then on the end is printed too. */
    announce(): void;
    /** For Ingest.observer, where bodies are kept. */
    observe(exchange: Exchange, status: number, fault: Fault | undefined): void;
}
