export declare const SUITES: readonly [1, 2];
export type Suite = (typeof SUITES)[number];
/** The bytes of the tag of a suite. */
export declare function tagBytes(suite: Suite): number;
/**
 * Writes the tag of the suite, if it has one, and behind it the sealed payload, which is as long as `salted`.
 * @param leaf the 32 bytes of the event's leaf hash. @param key of its place (key-tree.ts).
 */
export declare function seal(suite: Suite, key: string, leaf: Buffer, salted: Uint8Array, target: Buffer, at: number): void;
/**
 * @param sealed without its tag. @param tag that has to fit too; without it the commitment alone is asked, which is
 *   quicker by a third.
 * @returns salt and body; undefined when they do not come to the commitment: another key, or not what was sealed.
 */
export declare function open(suite: Suite, key: string, leaf: Buffer, sealed: Uint8Array, commitment: Buffer, tag?: Buffer): Buffer | undefined;
