export declare const EXIT: {
    readonly ok: 0;
    readonly failure: 1;
    readonly usage: 2;
    readonly damaged: 3;
    readonly unsafe: 4;
    readonly inUse: 5;
    readonly notFound: 6;
    readonly partly: 7;
    readonly refused: 8;
    readonly pending: 9;
    readonly planAgain: 10;
    readonly interrupted: 130;
};
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
/** The exit codes for the help, one a line, without a line break at the end. */
export declare function exitCodesHelp(): string;
/** A command could not do what it was asked to. The message is for the operator: one line, no secret. */
export declare class CommandFailure extends Error {
    readonly exitCode: ExitCode;
    name: string;
    constructor(message: string, exitCode: ExitCode, options?: ErrorOptions);
}
/** @returns the file that was refused, or undefined when the error comes from something else. */
export declare function deniedPath(error: unknown): string | undefined;
/**
 * Calls `stop` on the first signal that asks the process to end. A later one ends the process at once.
 * @returns removes the handlers.
 */
export declare function onStop(stop: (signal: NodeJS.Signals) => void): () => void;
/** Aborted by the first signal that asks the process to end, with exit code 130. */
export declare function interruption(message?: string): AbortSignal;
/** What the operator typed cannot be meant. */
export declare function usage(message: string): CommandFailure;
