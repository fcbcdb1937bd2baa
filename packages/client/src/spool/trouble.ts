/** Told of what went wrong and that no call could report. Must not throw. */
export type OnTrouble = (what: string, error: unknown) => void;
