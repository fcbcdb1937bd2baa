import { type ExitCode } from './exit-codes.js';
/** How a command ends that an error has ended. */
export declare function exitCodeOf(error: unknown): ExitCode;
/** Runs the command that `argv` asks for. On return the exit code is set. */
export declare function main(argv: readonly string[]): Promise<void>;
