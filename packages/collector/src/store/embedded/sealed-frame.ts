/**
 * Encrypted payloads in frames (docs/internals/formats.md). Before the sealed salt and body the extension
 * contains
 *
 *   offset  size  field
 *        0     1  suite (privacy/sealing.ts)
 *        1     3  0
 *        4     4  tag of the bucket of its key: the beginning of the bucket id
 *        8    16  tag of the cipher, if the suite has one
 *
 * Opening a frame replaces its payload in memory with plain text; on disk it stays encrypted.
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
 * Whether the extension of an encrypted frame of plausible size is one that a collector of this version
 * writes.
 */
export function sealedExtensionHolds(source: Buffer, offset: number): boolean {
  const overhead = frameExtensionLength(source, offset) - SALT_BYTES;
  const at = envelopeEnd(source, offset);
  // Checked before the suite is read, because a forged frame may end here.
  if (!OVERHEADS.includes(overhead) || at + overhead > source.length) return false;
  const suite = SUITES.find((each) => each === source.readUInt32LE(at));
  return suite !== undefined && overhead === CIPHER_TAG_AT + tagBytes(suite);
}

/** The tag of the bucket of a frame's key; undefined if the payload is not encrypted. */
export function bucketOf(source: Buffer, offset: number): number | undefined {
  return framePayloadState(source, offset) === ENCRYPTED ? keyNameIn(source, offset).tag : undefined;
}

/** The tag and the organisation that identify the key of an encrypted frame. */
export function keyNameIn(source: Buffer, offset: number): { tag: number; organisation: string } {
  const tag = source.readUInt32BE(envelopeEnd(source, offset) + BUCKET_TAG_AT);
  return { tag, organisation: frameOrganisation(source, offset) };
}

/**
 * `plain`: the payload is plain now. `erased`: an action destroyed its key. `no-keys`: there is no key
 * directory. `no-key`: the key is missing. `unfit`: the result does not match the commitment.
 */
export type Opening = 'plain' | 'erased' | 'no-keys' | 'no-key' | 'unfit';

export interface OpenerOptions {
  /** Whether to check the tag of the cipher in addition to the commitment. */
  readonly asksTag?: boolean;
  /** Called once if the keys cannot be used, which then counts as no keys; without it the error is thrown. */
  readonly onUnfit?: (error: unknown) => void;
  /** The events whose keys are destroyed by actions. They are not opened, even if a key exists. */
  readonly erased?: () => SequenceSet;
}

/** How a reader of its own user gets the payload keys. */
export interface KeyReading extends Pick<OpenerOptions, 'onUnfit'> {
  /** The wrapping key, as `--kek` names it; by default as noted in the data directory. */
  readonly kek?: string | undefined;
  /** After this time all keys are opened again, so that a right that was taken away has ended. */
  readonly keptMs?: number | undefined;
}

/** Opens encrypted frames in memory. */
export class FrameOpener {
  readonly #leaf = Buffer.alloc(HASH_BYTES);
  #keys: StoredKeys | undefined;
  #isLooked = false;
  #isUnfit = false;
  #openedAt = performance.now();
  #erased = SequenceSet.EMPTY;

  /**
   * @param findKeys called at an encrypted frame if no keys are known yet; returns undefined if there are
   * none.
   */
  constructor(
    private readonly findKeys: () => StoredKeys | undefined,
    private readonly options: OpenerOptions & Pick<KeyReading, 'keptMs'> = {},
  ) {}

  /** An opener with the keys of a data directory. */
  static of(dataDirectory: string, files: Files, options?: OpenerOptions & KeyReading): FrameOpener {
    const places = () => {
      const noted = readKeyPlaces(dataDirectory);
      return options?.kek === undefined ? noted : { ...noted, kek: options.kek };
    };
    return new FrameOpener(() => readKeys(places(), files), options);
  }

  /** Undefined if there is no key directory. @throws KekFault, KeysUnfit */
  get keys(): StoredKeys | undefined {
    if (this.#keys === undefined && !this.#isUnfit && !this.#isLooked) {
      this.#isLooked = true;
      this.#keys = this.findKeys();
    }
    return this.#keys;
  }

  /**
   * Call after reading frames and before opening them. Allows missing keys to be looked up once again: a key
   * is durable before its event is.
   */
  readAgain(): void {
    this.#isLooked = false;
    if (performance.now() - this.#openedAt > (this.options.keptMs ?? Infinity)) this.#forgetKeys();
    this.#keys?.readAgain();
    this.#erased = this.options.erased?.() ?? this.#erased;
  }

  #forgetKeys(): void {
    this.#keys = undefined;
    this.#isUnfit = false;
    this.#openedAt = performance.now();
  }

  /**
   * Opens a frame of plausible size in memory, or marks it as erased. `size` bytes of it are at `offset`.
   * @param leaf the hash of its leaf, if known.
   * @throws KekFault, KeysUnfit if there are keys but they cannot be used.
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
