/** @param option that it was given by. @throws CommandFailure for what is no address of a collector. */
export declare function collectorUrl(option: string, text: string): URL;
export declare function isThisHost({ hostname }: URL): boolean;
/** Of a key that others can read on its way. */
export declare function warnOfPlainText(url: URL): void;
/** @param where @FILE, or - for standard input. Never repeats what it was given: it may be the key itself. */
export declare function keyFrom(where: string): Promise<string>;
/** @param source that is named when it is none. */
export declare function checkedKey(source: string, text: string): string;
/**
 * On return a collector is there. It is asked without a key, which is for no one else.
 * @param asked counts how it answered, by code: its console counts these as refusals.
 */
export declare function assertAnswers(url: URL, asked?: Map<string, number>): Promise<void>;
