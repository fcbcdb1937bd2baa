/**
 * What SIGHUP does: reads the configuration again and takes what a running collector can take; says what needs a restart.
 * A configuration with a fault changes nothing. What is read from other places than the configuration, such as keys and
 * certificates, is read again in any case. The last line in the log says what has come of it all.
 */
import type { Logger } from 'pino';
import { type Config } from '../../config.js';
export interface ReloadOptions {
    /** Reads the configuration as at the start. @throws ConfigError with every fault. */
    readonly read: () => Config;
    /** Puts the new values to use. Called only when some option that can be reloaded has changed. */
    readonly apply: (config: Config) => void;
    /**
     * What else is read again, by what it is called in the log. One that throws, or resolves with false and has said why,
     * leaves what was there.
     */
    readonly sources: Readonly<Record<string, () => Promise<boolean>>>;
    readonly onBegin: () => void;
    readonly onEnd: () => void;
    readonly log: Logger;
}
export declare class Reload {
    #private;
    private readonly options;
    /** In force now. */
    config: Config;
    /** @param started a reload that is asked for earlier waits for it. */
    constructor(running: Config, started: Promise<void>, options: ReloadOptions);
    /** Has everything read again, after what was asked for before. */
    ask(): void;
    /** Resolves when all that was asked for is done. Never rejects. */
    get done(): Promise<void>;
    /**
     * From now on nothing more is begun. Resolves when nothing is under way, or after so long: a file on a mount that is
     * gone may never be read. Then nothing is told of it any more.
     */
    end(timeoutMs: number): Promise<void>;
}
