/**
 * Payloads that are encrypted in their frames (docs/internals/formats.md). Before the sealed salt and body the extension holds
 *
 *   offset  size  field
 *        0     1  suite (privacy/sealing.ts)
 *        1     3  0
 *        4     4  tag of the bucket whose keys it is sealed by: the beginning of the bucket's id
 *        8    16  tag of the cipher, where the suite has one
 *
 * A frame is opened in memory, and is then as if it had been plain; on the disk it stays encrypted.
 */
import type { Files } from '../../files.js';
import { HASH_BYTES, leafHash } from '../../tree/merkle.js';
import { readKeys } from '../../privacy/key-directories.js';
import type { EventKey, PayloadKeys } from '../../privacy/payload-keys.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { open, seal, SUITES, tagBytes, type Suite } from '../../privacy/sealing.js';
import type { StoredKeys } from '../../privacy/stored-keys.js';
import { type Candidate, keysUnwritable } from '../contract/events.js';
import {
  ENCRYPTED,
  envelopeEnd,
  frameCommitment,
  frameEnvelope,
  frameExtensionLength,
  frameOrganisation,
  framePayloadState,
  frameSalted,
  frameSequence,
  OVERHEADS,
  PLAIN,
  ERASED,
  setFramePayloadState,
  type PayloadSealer,
} from './frame.js';
import { readKeyPlaces } from '../key-places.js';
import { SALT_BYTES } from '@clinical-events/protocol';

const BUCKET_TAG_AT = 4;
const CIPHER_TAG_AT = 8;

export class FrameSealer implements PayloadSealer {
  readonly overhead: number;
  readonly #leaf = Buffer.alloc(HASH_BYTES);

  constructor(
    private readonly keys: Pick<PayloadKeys, 'keyFor'>,
    private readonly suite: Suite,
  ) {
    this.overhead = CIPHER_TAG_AT + tagBytes(suite);
  }

  seal(target: Buffer, offset: number, at: number, candidate: Candidate, sequence: number): void {
    const { tag, key } = this.#keyFor(candidate.organisation, sequence);
    leafHash(frameEnvelope(target, offset), candidate.commitment, this.#leaf, 0);
    target.writeUInt32LE(this.suite, at);
    target.writeUInt32BE(tag, at + BUCKET_TAG_AT);
    seal(this.suite, key, this.#leaf, candidate.salted, target, at + CIPHER_TAG_AT);
  }

  #keyFor(organisation: string, sequence: number): EventKey {
    try {
      return this.keys.keyFor(organisation, sequence);
    } catch (error) {
      throw keysUnwritable(error);
    }
  }
}

/**
 * Whether what is said of an encrypted payload in front of it is what a collector of this version writes. Asked of a frame
 * whose size is plausible.
 */
export function sealedExtensionHolds(source: Buffer, offset: number): boolean {
  const overhead = frameExtensionLength(source, offset) - SALT_BYTES;
  const at = envelopeEnd(source, offset);
  // Before the suite is read: a frame that was made up may end here.
  if (!OVERHEADS.includes(overhead) || at + overhead > source.length) return false;
  const suite = SUITES.find((each) => each === source.readUInt32LE(at));
  return suite !== undefined && overhead === CIPHER_TAG_AT + tagBytes(suite);
}

/** The tag of the bucket whose key a frame's payload is encrypted by; undefined when it is not. */
export function bucketOf(source: Buffer, offset: number): number | undefined {
  return framePayloadState(source, offset) === ENCRYPTED ? keyNameIn(source, offset).tag : undefined;
}

/** Names the bucket of an encrypted frame, and the organisation whose tree has its key. */
export function keyNameIn(source: Buffer, offset: number): { tag: number; organisation: string } {
  const tag = source.readUInt32BE(envelopeEnd(source, offset) + BUCKET_TAG_AT);
  return { tag, organisation: frameOrganisation(source, offset) };
}

/**
 * `plain`: it is by now, or always was. `erased`: an action has destroyed its key. `no-keys`: there is no key directory.
 * `no-key`: it has not the key that is needed. `unfit`: the key opens nothing that comes to the commitment.
 */
export type Opening = 'plain' | 'erased' | 'no-keys' | 'no-key' | 'unfit';

export interface OpenerOptions {
  /** Whether the tag of the cipher has to fit too: what is opened comes to the commitment at any rate. */
  readonly asksTag?: boolean;
  /** Told once when there are keys and none can be had, which then counts as if there were none. Thrown without it. */
  readonly onUnfit?: (error: unknown) => void;
  /** The events whose keys actions have destroyed, by now: they are not opened, whatever keys there are. */
  readonly erased?: () => SequenceSet;
}

/** Opens frames that are read. */
export class FrameOpener {
  readonly #leaf = Buffer.alloc(HASH_BYTES);
  #keys: StoredKeys | undefined;
  #isLooked = false;
  #isUnfit = false;
  #erased = SequenceSet.EMPTY;

  /** @param findKeys called when an encrypted frame is met and there were none. @returns undefined when there are none. */
  constructor(
    private readonly findKeys: () => StoredKeys | undefined,
    private readonly options: OpenerOptions = {},
  ) {}

  /** By the keys that a data directory says where to find. */
  static of(dataDirectory: string, files: Files, options?: OpenerOptions): FrameOpener {
    return new FrameOpener(() => readKeys(readKeyPlaces(dataDirectory), files), options);
  }

  /** Undefined when there is no key directory at all. @throws KekFault, KeysUnfit */
  get keys(): StoredKeys | undefined {
    if (this.#keys === undefined && !this.#isUnfit && !this.#isLooked) {
      this.#isLooked = true;
      this.#keys = this.findKeys();
    }
    return this.#keys;
  }

  /**
   * To be called when frames were read that are to be opened: a key is durable before its event is, so that what was not
   * there before is to be looked for once more, and then no more among these.
   */
  readAnew(): void {
    this.#isLooked = false;
    this.#keys?.readAgain();
    this.#erased = this.options.erased?.() ?? this.#erased;
  }

  /**
   * On return the frame is plain in memory, if it can be, or said to be erased. `size` bytes of it are at `offset`, and its size is plausible.
   * @param leaf the hash of its leaf, where it is known.
   * @throws KekFault, KeysUnfit when there are keys and none of them can be had.
   */
  open(source: Buffer, offset: number, size: number, leaf?: Buffer): Opening {
    const state = framePayloadState(source, offset);
    if (state === PLAIN) return 'plain';
    if (state === ERASED) return 'erased';
    if (state !== ENCRYPTED || !sealedExtensionHolds(source, offset)) return 'unfit';
    if (this.#erased.has(frameSequence(source, offset))) {
      setFramePayloadState(source, offset, ERASED);
      return 'erased';
    }
    const key = this.#keyOf(source, offset);
    if (key === undefined) return this.#keys === undefined ? 'no-keys' : 'no-key';
    const at = envelopeEnd(source, offset);
    const commitment = frameCommitment(source, offset);
    if (leaf === undefined) leafHash(frameEnvelope(source, offset), commitment, this.#leaf, 0);
    const sealed = frameSalted(source, offset, size);
    const suite = source[at] === 2 ? 2 : 1;
    const tagAt = at + CIPHER_TAG_AT;
    const cipherTag = this.options.asksTag ? source.subarray(tagAt, tagAt + tagBytes(suite)) : undefined;
    const salted = open(suite, key, leaf ?? this.#leaf, sealed, commitment, cipherTag);
    if (salted === undefined) return 'unfit';
    salted.copy(sealed);
    setFramePayloadState(source, offset, PLAIN);
    return 'plain';
  }

  #keyOf(source: Buffer, offset: number): string | undefined {
    const { tag, organisation } = keyNameIn(source, offset);
    try {
      return this.keys?.keyOf(tag, organisation, frameSequence(source, offset));
    } catch (error) {
      if (this.options.onUnfit === undefined) throw error;
      if (!this.#isUnfit) this.options.onUnfit(error);
      this.#isUnfit = true;
      this.#keys = undefined;
      return undefined;
    }
  }
}
