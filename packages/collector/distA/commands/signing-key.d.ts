import { Command } from 'commander';
/** The `signing-key` command with its subcommands. */
export declare function command(): Command;
