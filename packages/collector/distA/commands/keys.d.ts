import { Command } from 'commander';
import type { Permissions, RateLimit } from '../store/contract/keys.js';
/** `all`, or kinds with commas between them. */
export declare function permissionsFrom(text: string): Permissions;
/** `100/s` or `100/s:500`. */
export declare function rateLimitFrom(text: string | undefined): RateLimit | undefined;
/** `dns:` or `uri:`, and a name of that kind in the certificate. */
export declare function clientCertificateFrom(text: string | undefined): string | undefined;
/** A key id. Never repeats what it was given: people paste whole keys where the id is asked for. */
export declare function keyIdFrom(text: string): string;
/** The `keys` command with its subcommands. */
export declare function command(): Command;
