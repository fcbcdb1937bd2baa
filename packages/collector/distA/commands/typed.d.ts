declare const NAMES: readonly ["serve", "keys", "events", "runs", "records", "report", "import", "encryption-keys", "signing-key", "doctor", "verify", "proof", "check-proof", "backup", "restore", "demo", "store", "mirror", "erase", "retention", "hold"];
export type CommandWord = (typeof NAMES)[number];
/**
 * Each `collector COMMAND` in the text, as it is to be typed here.
 * @param dataDir that the commands are about, as an absolute path.
 */
export declare function typed(text: string, dataDir?: string): string;
/** The option that names the data directory, behind a space; empty for the one that is looked for without it. */
export declare function inDirectory(dataDir: string | undefined): string;
/** For those who read it on another host: without a path, which they are not told. */
export declare function ownName(): string;
/** The same as {@link typed} for them. */
export declare function typedByName(text: string): string;
/** The same for a help text, of which only the examples are for pasting. */
export declare function typedExamples(help: string): string;
export declare function version(): string;
export {};
