import { ConfigError, reloaded } from '../../config.js';
export class Reload {
    options;
    /** In force now. */
    config;
    #last;
    #ended = false;
    #givenUp = false;
    /** @param started a reload that is asked for earlier waits for it. */
    constructor(running, started, options) {
        this.options = options;
        this.config = running;
        this.#last = started;
    }
    /** Has everything read again, after what was asked for before. */
    ask() {
        this.#last = this.#last.then(() => (this.#ended ? undefined : this.#once()));
    }
    /** Resolves when all that was asked for is done. Never rejects. */
    get done() {
        return this.#last;
    }
    /**
     * From now on nothing more is begun. Resolves when nothing is under way, or after so long: a file on a mount that is
     * gone may never be read. Then nothing is told of it any more.
     */
    async end(timeoutMs) {
        this.#ended = true;
        let timer;
        const late = new Promise((resolve) => {
            timer = setTimeout(() => {
                this.#givenUp = true;
                this.options.log.warn('a reload hangs, most likely at a file system that does not answer');
                resolve();
            }, timeoutMs);
        });
        await Promise.race([this.#last, late]);
        clearTimeout(timer);
    }
    async #once() {
        const { log, sources, onBegin, onEnd } = this.options;
        onBegin();
        const tell = this.#readConfig();
        const kept = [];
        for (const [source, readAnew] of Object.entries(sources)) {
            try {
                if (!(await readAnew()))
                    kept.push(source);
            }
            catch (error) {
                kept.push(source);
                const reason = error instanceof Error ? error.message : String(error);
                log.error({ source, reason }, 'cannot be read again; what was read before stays in use');
            }
        }
        if (this.#givenUp)
            return;
        tell(kept);
        onEnd();
    }
    /** @returns what tells of it, given what else could not be read again. */
    #readConfig() {
        const { read, apply, log } = this.options;
        let found;
        try {
            found = read();
        }
        catch (error) {
            const faults = error instanceof ConfigError
                ? error.faults
                : [{ source: 'configuration', message: error instanceof Error ? error.message : String(error) }];
            return () => log.error({ faults }, 'the configuration cannot be used; the one before stays in force');
        }
        const { config, taken, waiting } = reloaded(this.config, found);
        this.config = config;
        if (taken.length > 0)
            apply(config);
        return (kept) => {
            if (waiting.length > 0)
                log.warn({ options: waiting }, 'changed in the configuration, and needs a restart');
            if (kept.length === 0)
                log.info({ options: taken }, 'configuration reloaded');
            else
                log.error({ options: taken, kept }, 'configuration reloaded, but not what is listed as kept');
        };
    }
}
//# sourceMappingURL=reload.js.map