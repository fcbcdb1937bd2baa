import { type ConfigFault, type ConfigReading } from '../../config.js';
import { type ExitCode } from '../exit-codes.js';
import { type FoundSettings } from './resolved-config.js';
/**
 * @param listen whether the start is to take events.
 * @returns the exit code.
 * @throws ConfigError with every fault, unless they are printed as JSON.
 */
export declare function checkConfig(reading: ConfigReading, { json, listen }: {
    readonly json: boolean;
    readonly listen: boolean;
}): Promise<ExitCode>;
/**
 * What a configuration may say and had better not, with who said it; also of one with faults, as far as it can be read.
 * What cannot be seen on the disk is no warning: the start reports it.
 */
export declare function configWarnings({ sound, sourceOf, file }: ConfigReading, { tls, trustedProxies, sinks }: FoundSettings, listen?: boolean): ConfigFault[];
