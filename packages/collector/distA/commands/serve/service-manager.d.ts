import type { Logger } from 'pino';
import type { ServiceManagement } from '../../config.js';
export declare class ServiceManager {
    #private;
    constructor(management: ServiceManagement, log: Logger);
    /** Connections are accepted: what depends on the collector may start. Also ends a reload. */
    ready(status: string): void;
    /** The configuration is read again; {@link ready} must follow. */
    reloading(): void;
    stopping(): void;
    /**
     * From now on shows that the collector lives, if the manager wants to know, as long as the event loop turns and
     * `livesSince` agrees: else the manager ends the process and starts it again.
     * @param livesSince whether all threads have shown to live within so many milliseconds.
     */
    watch(livesSince: (milliseconds: number) => boolean): void;
    /** On return all that was said has been read, or never will be. */
    close(): Promise<void>;
}
