import { type Config, type ConfigFault, type ConfigReading } from '../../config.js';
import type { TlsOptions } from '../../ingest/tls.js';
import { TrustedProxies } from '../../ingest/trusted-proxies.js';
import { OperatorToken } from '../../operate/gate.js';
import { type SinkSpec } from '../../transparency/sink.js';
export interface ResolvedConfig {
    /** Undefined for plain HTTP. */
    readonly tls: Omit<TlsOptions, 'log'> | undefined;
    readonly trustedProxies: TrustedProxies;
    readonly sinks: readonly SinkSpec[];
    /** Undefined when no token is wanted. */
    readonly token: OperatorToken | undefined;
}
/** Undefined are also those that cannot be used. */
export type FoundSettings = {
    readonly [Name in keyof ResolvedConfig]?: ResolvedConfig[Name] | undefined;
};
/**
 * Reads what the sound options name. Never throws for what they say.
 * @returns what was found sound, and every fault, those of the reading first.
 */
export declare function findSettings({ sound, faults: before, sourceOf }: ConfigReading): Promise<{
    found: FoundSettings;
    faults: readonly ConfigFault[];
}>;
/**
 * The configuration and what it names, for a start.
 * @throws ConfigError with every fault.
 */
export declare function resolveConfig(reading: ConfigReading): Promise<{
    config: Config;
    resolved: ResolvedConfig;
}>;
