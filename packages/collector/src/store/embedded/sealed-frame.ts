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
import { HASH_BYTES, leafHash } from '../../integrity/merkle.js';
import {
  KeyReader,
  hasKeys,
  type EventKey,
  type KeyWriter,
  type StoredKeys,
} from '../../privacy/key-directory.js';
import { open, seal, SUITES, tagBytes, type Suite } from '../../privacy/sealing.js';
import { type Candidate, NotCommitted } from '../contract.js';
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
  PLAIN,
  setFramePlain,
  type PayloadSealer,
} from './frame.js';
import { readKeyPlaces } from './key-places.js';
import { SALT_BYTES } from '@clinical-events/protocol';

const BUCKET_TAG_AT = 4;
const CIPHER_TAG_AT = 8;

export class FrameSealer implements PayloadSealer {
  readonly overhead: number;
  readonly #leaf = Buffer.alloc(HASH_BYTES);

  constructor(
    private readonly keys: Pick<KeyWriter, 'keyFor'>,
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
      throw new NotCommitted('the keys of payloads cannot be written', { cause: error });
    }
  }
}

/** Whether what is said of an encrypted payload in front of it is what a collector of this version writes. */
export function sealedExtensionHolds(source: Buffer, offset: number): boolean {
  const at = envelopeEnd(source, offset);
  const suite = SUITES.find((each) => each === source.readUInt32LE(at));
  return (
    suite !== undefined &&
    frameExtensionLength(source, offset) === CIPHER_TAG_AT + tagBytes(suite) + SALT_BYTES
  );
}

/** Opens frames that are read. */
export class FrameOpener {
  readonly #leaf = Buffer.alloc(HASH_BYTES);
  #keys: StoredKeys | undefined;

  /**
   * @param findKeys called once, when the first encrypted frame is met. @returns undefined when there are none.
   * @param asksTag whether the tag of the cipher has to fit too: what is opened comes to the commitment at any rate.
   */
  constructor(
    private findKeys: () => StoredKeys | undefined,
    private readonly asksTag = false,
  ) {}

  /** By the keys that a data directory says where to find. */
  static of(dataDirectory: string, files: Files, asksTag = false): FrameOpener {
    return new FrameOpener(() => {
      const places = readKeyPlaces(dataDirectory);
      return hasKeys(places) ? new KeyReader(files, places) : undefined;
    }, asksTag);
  }

  /** Undefined when there is no key directory at all. */
  get keys(): StoredKeys | undefined {
    this.#keys ??= this.findKeys();
    this.findKeys = () => undefined;
    return this.#keys;
  }

  /**
   * On return the frame is plain in memory, if it can be: where there are no keys, or not the one it needs, it stays as it
   * is. `size` bytes of it are at `offset`, and its checksum holds.
   * @returns whether it is plain. @throws KekFault, KeysUnfit when there are keys and none of them can be had.
   */
  open(source: Buffer, offset: number, size: number): boolean {
    const state = framePayloadState(source, offset);
    if (state !== ENCRYPTED) return state === PLAIN;
    if (!sealedExtensionHolds(source, offset)) return false;
    const at = envelopeEnd(source, offset);
    const tag = source.readUInt32BE(at + BUCKET_TAG_AT);
    const key = this.keys?.keyOf(tag, frameOrganisation(source, offset), frameSequence(source, offset));
    if (key === undefined) return false;
    const commitment = frameCommitment(source, offset);
    leafHash(frameEnvelope(source, offset), commitment, this.#leaf, 0);
    const sealed = frameSalted(source, offset, size);
    const suite = source[at] === 2 ? 2 : 1;
    const tagAt = at + CIPHER_TAG_AT;
    const cipherTag = this.asksTag ? source.subarray(tagAt, tagAt + tagBytes(suite)) : undefined;
    const salted = open(suite, key, this.#leaf, sealed, commitment, cipherTag);
    if (salted === undefined) return false;
    salted.copy(sealed);
    setFramePlain(source, offset);
    return true;
  }
}
