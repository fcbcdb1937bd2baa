/** `collector erase --list` and `--certificate`: what the log says was done to stored events. */
import type { Command } from 'commander';
export interface ErasureOptions {
    readonly list?: true;
    readonly certificate?: string;
    readonly json?: true;
}
/** @throws CommandFailure also where an erasure is pending: what is printed then is no certificate. */
export declare function showErasures({ list, certificate, json }: ErasureOptions, command: Command): Promise<void>;
/** @throws CommandFailure when the erasure is pending, and where the log has no such action. */
export declare function printCertificate(dataDir: string, action: string, isJson: boolean): Promise<void>;
