import { type NoteKey, type CheckpointSigner } from '../integrity/note-signing.js';
/**
 * The signing command did not do what it is for. The message is for the operator, and holds nothing but the program's
 * path and public keys.
 */
export declare class SigningCommandFailed extends Error {
    name: string;
}
/** The command cannot be the one that is meant: another try would come to the same. */
export declare class SigningCommandUnfit extends SigningCommandFailed {
    name: string;
}
export interface CommandSignerOptions {
    /** Its path. */
    readonly program: string;
    readonly dataDir: string;
    /** The name of the log; asked for at the very first start only. */
    readonly origin: () => string;
    readonly onTrouble: (what: string, error: unknown) => void;
    readonly timeLimitMs?: number;
}
export declare class CommandSigner implements CheckpointSigner {
    private readonly program;
    private readonly timeLimitMs;
    /** The last of them is the program's. */
    readonly keys: readonly NoteKey[];
    private readonly key;
    readonly origin: string;
    private constructor();
    /**
     * Asks the program for its public key. At the very first start of a log that becomes the key which the log began
     * with, durably; later it has to be the one that the log has, or, while no one answers, is taken to be.
     * @throws SigningCommandUnfit when there is no such program, or it gives something else than an Ed25519 public key,
     *   or another key than that of the log.
     * @throws SigningCommandFailed when the program gives nothing at the very first start, as it may when what it asks
     *   is down.
     * @throws SigningKeyFault when the log's keys are broken.
     */
    static open(options: CommandSignerOptions): Promise<CommandSigner>;
    /** @throws SigningCommandFailed when there is no signature, or not one of this text by the log's key. */
    sign(text: string): Promise<string>;
}
/**
 * @returns why there is no program to start at this path, in words that follow the option's name; undefined when there
 *   is one, which is not started.
 */
export declare function programFault(program: string): string | undefined;
