/**
 * Payloads that are encrypted in their frames. In front of the sealed salt and body the extension holds
 *
 *   offset  size  field
 *        0     1  suite (privacy/sealing.ts)
 *        1     3  0
 *        4     4  tag of the bucket whose keys it is sealed by: the beginning of the bucket's id
 *        8    16  tag of the cipher, where the suite has one
 *
 * A frame is opened in memory and becomes as if it had been plain; on the disk it never is.
 */
import type { Files } from '../../files.js';
import { type KeyWriter, type StoredKeys } from '../../privacy/key-directory.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { type Suite } from '../../privacy/sealing.js';
import { type Candidate } from '../contract/events.js';
import { type PayloadSealer } from './frame.js';
export declare class FrameSealer implements PayloadSealer {
    #private;
    private readonly keys;
    private readonly suite;
    readonly overhead: number;
    constructor(keys: Pick<KeyWriter, 'keyFor'>, suite: Suite);
    seal(target: Buffer, offset: number, at: number, candidate: Candidate, sequence: number): void;
}
/**
 * Whether what is said of an encrypted payload in front of it is what a collector of this version writes. Asked of a frame
 * whose size is plausible.
 */
export declare function sealedExtensionHolds(source: Buffer, offset: number): boolean;
/** The tag of the bucket whose key a frame's payload is encrypted by; undefined when it is not. */
export declare function bucketOf(source: Buffer, offset: number): number | undefined;
/** Names the bucket of an encrypted frame, and the organisation whose tree has its key. */
export declare function keyNameIn(source: Buffer, offset: number): {
    tag: number;
    organisation: string;
};
/**
 * `plain`: it is by now, or always was. `retired`: an action has destroyed its key. `no-keys`: there is no key directory.
 * `no-key`: it has not the key that is needed. `unfit`: the key opens nothing that comes to the commitment.
 */
export type Opening = 'plain' | 'retired' | 'no-keys' | 'no-key' | 'unfit';
export interface OpenerOptions {
    /** Whether the tag of the cipher has to fit too: what is opened comes to the commitment at any rate. */
    readonly asksTag?: boolean;
    /** Told once when there are keys and none can be had, which then counts as if there were none. Thrown without it. */
    readonly onUnfit?: (error: unknown) => void;
    /** The events whose keys actions have destroyed, by now: they are not opened, whatever keys there are. */
    readonly retired?: () => SequenceSet;
}
/** Opens frames that are read. */
export declare class FrameOpener {
    #private;
    private readonly findKeys;
    private readonly options;
    /** @param findKeys called when an encrypted frame is met and there were none. @returns undefined when there are none. */
    constructor(findKeys: () => StoredKeys | undefined, options?: OpenerOptions);
    /** By the keys that a data directory says where to find. */
    static of(dataDirectory: string, files: Files, options?: OpenerOptions): FrameOpener;
    /** Undefined when there is no key directory at all. @throws KekFault, KeysUnfit */
    get keys(): StoredKeys | undefined;
    /**
     * To be called when frames were read that are to be opened: a key is durable before its event is, so that what was not
     * there before is to be looked for once more, and then no more among these.
     */
    readAnew(): void;
    /**
     * On return the frame is plain in memory, if it can be, or said to be retired. `size` bytes of it are at `offset`, and its size is plausible.
     * @param leaf the hash of its leaf, where it is known.
     * @throws KekFault, KeysUnfit when there are keys and none of them can be had.
     */
    open(source: Buffer, offset: number, size: number, leaf?: Buffer): Opening;
}
