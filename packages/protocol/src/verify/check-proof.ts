/**
 * Checks that an event is in the log, with the proof file, the event's body and the log's verifier key alone.
 *
 * A valid proof shows that a holder of the key has signed a tree with a leaf at this index for exactly this
 * body, received at the time and under the organisation, API key, kind and profile in the envelope. It does
 * not show that the log has no second tree for someone else, which requires checkpoints outside the host.
 *
 * Proof and rotations come from the party that is being checked, and the body from anywhere. Any input gets a
 * verdict.
 */
import { isUuid } from '../formats/uuid.js';
import { decodeEnvelope, encodeLeaf, LEAF_BYTES, SALT_BYTES, type Envelope } from '../leaf.js';
import { parseCheckpoint, type Checkpoint } from './checkpoint.js';
import { followRotations, RotationRefused } from './rotation.js';
import { hashLeaf, rootFromInclusion, sha256 } from './hashing.js';
import {
  KeyMalformed,
  keyIdText,
  NoteMalformed,
  parseNote,
  parseVerifierKey,
  checkedKey,
  NoteForged,
  NoteUnsigned,
  verifyNote,
} from './signed-note.js';
import { parseProof, type TlogProof } from './tlog-proof.js';

/** Why a proof is not valid. The list is closed, and a reason never changes its meaning. */
export type ProofFault =
  /** The file is not a proof of this log. */
  | 'proof-malformed'
  /** A given verifier key cannot be used. */
  | 'key-unusable'
  /** A given rotation note is malformed, or hands over a trusted key without both signatures. */
  | 'rotation-refused'
  /** No trusted key has signed the checkpoint. */
  | 'untrusted-key'
  /** The checkpoint has a signature that names a trusted key and is not that key's. */
  | 'signature-forged'
  /** The checkpoint and the key that signed it belong to different logs. */
  | 'origin-differs'
  /** The body and the proof belong to different events. */
  | 'other-event'
  /** A tree of the checkpoint's size has no leaf at this index, or its path has another length. */
  | 'not-in-tree'
  /**
   * Body, envelope, salt and path do not lead to the signed root: one of them differs from the logged one.
   */
  | 'event-differs';

export type ProofVerdict =
  | {
      readonly valid: true;
      /** The log's record of the event, in addition to its body. */
      readonly envelope: Envelope;
      /** `erased`: the log has erased the body, and the proof shows only that there was one. */
      readonly content: 'body' | 'erased';
      /** The index of the leaf, from zero: the event's sequence number minus one. */
      readonly index: number;
      readonly checkpoint: Checkpoint;
      /** The verifier key of the log that signed the checkpoint. */
      readonly signedBy: string;
    }
  | {
      readonly valid: false;
      readonly reason: ProofFault;
      /**
       * An explanation for an auditor, in complete sentences. Quotes only event ids and key ids from proof
       * and body.
       */
      readonly message: string;
    };

export interface ProofCheck {
  /** The proof file. */
  readonly proof: string;
  /** The event as it was sent, byte for byte; absent for an event that the log has erased. */
  readonly body?: Uint8Array | undefined;
  /**
   * Verifier keys of the log that the caller trusts, from another source than the proof. White space around a
   * key is ignored.
   */
  readonly keys: readonly string[];
  /** Rotation notes of the log, the oldest first, which lead from those keys to later ones. */
  readonly rotations?: readonly string[];
}

class Refusal extends Error {
  constructor(
    readonly reason: ProofFault,
    message: string,
  ) {
    super(message);
  }
}

interface Extra {
  readonly encodedEnvelope: Uint8Array;
  readonly envelope: Envelope;
  /** Undefined when body and salt were erased. */
  readonly salt: Uint8Array | undefined;
  readonly commitment: Uint8Array | undefined;
}

const COMMITMENT_BYTES = 32;

function readExtra(extra: Uint8Array): Extra {
  const { envelope, size } = decodeEnvelope(extra);
  const rest = extra.subarray(size);
  const isErased = rest.length === COMMITMENT_BYTES;
  if (rest.length !== SALT_BYTES && !isErased)
    throw new NoteMalformed(
      'the extra data is not an envelope and a salt of 16 bytes, or a commitment of 32',
    );
  return {
    ...{ encodedEnvelope: extra.subarray(0, size), envelope },
    ...{ salt: isErased ? undefined : rest, commitment: isErased ? rest : undefined },
  };
}

function readProof(text: string): { proof: TlogProof; extra: Extra; checkpoint: Checkpoint } {
  try {
    const proof = parseProof(text);
    const checkpoint = parseCheckpoint(parseNote(proof.checkpoint).text);
    return { proof, extra: readExtra(proof.extra), checkpoint };
  } catch (error) {
    const ofTheText = error instanceof NoteMalformed || error instanceof RangeError;
    if (!ofTheText) throw error;
    throw new Refusal('proof-malformed', `The file is not a proof of this log: ${error.message}.`);
  }
}

async function trustedKeys({ keys: given, rotations = [] }: ProofCheck): Promise<readonly string[]> {
  // A key from a file ends with a newline, and none contains white space.
  const keys = given.map((key) => key.trim());
  try {
    for (const key of keys) await checkedKey(key);
    return [...(await followRotations(keys, rotations))];
  } catch (error) {
    if (error instanceof KeyMalformed) {
      throw new Refusal('key-unusable', `A key that was given cannot be used: ${error.message}.`);
    }
    if (error instanceof RotationRefused) {
      throw new Refusal('rotation-refused', `A key rotation cannot be followed: ${error.message}.`);
    }
    throw error;
  }
}

/** The key ids in the checkpoint's signatures, at most eight. */
function signerIds(note: string): string {
  const ids = parseNote(note).signatures.map(({ keyId }) => keyIdText(keyId));
  return ids.slice(0, 8).join(', ') + (ids.length > 8 ? ', …' : '');
}

/** @returns the trusted key of the checkpoint's log that signed it. */
async function checkSignature(note: string, origin: string, keys: readonly string[]): Promise<string> {
  try {
    const { signedBy } = await verifyNote(note, keys);
    const ofTheLog = signedBy.find((vkey) => parseVerifierKey(vkey).name === origin);
    if (ofTheLog !== undefined) return ofTheLog;
  } catch (error) {
    if (error instanceof NoteUnsigned) {
      const message = `No trusted key has signed the checkpoint. It names the key ids ${signerIds(note)}.`;
      throw new Refusal('untrusted-key', message);
    }
    if (error instanceof NoteForged) {
      const message = `The checkpoint is forged or damaged: ${error.message}.`;
      throw new Refusal('signature-forged', message);
    }
    throw error;
  }
  throw new Refusal('origin-differs', 'The checkpoint and the key that signed it belong to different logs.');
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function uuidText(bytes: Uint8Array): string {
  return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** The event_id in the body. Undefined when it is not a JSON object with one. */
function eventIdIn(body: Uint8Array): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null || !('event_id' in value)) return undefined;
  const id = value.event_id;
  return typeof id === 'string' && isUuid(id) ? id.toLowerCase() : undefined;
}

function checkEventId(body: Uint8Array, eventId: Uint8Array): void {
  const [proved, given] = [uuidText(eventId), eventIdIn(body)];
  if (given === undefined) {
    const message = `The body is not the event ${proved} that was logged: it is not JSON with an event_id.`;
    throw new Refusal('event-differs', message);
  }
  if (given !== proved) {
    throw new Refusal(
      'other-event',
      `The proof is of the event ${proved}, and the body is of the event ${given}.`,
    );
  }
}

async function commitmentOf({ salt, commitment }: Extra, body?: Uint8Array): Promise<Uint8Array> {
  if (salt !== undefined && body !== undefined) return sha256(salt, body);
  if (commitment !== undefined && body === undefined) return commitment;
  throw new Refusal(
    'event-differs',
    commitment === undefined
      ? 'The body of the event is needed, and was not given.'
      : 'The log erased the body of this event before it made the proof, so no body can be checked.',
  );
}

async function leafOf(extra: Extra, body?: Uint8Array): Promise<Uint8Array> {
  const { encodedEnvelope } = extra;
  const commitment = await commitmentOf(extra, body);
  const envelopeHash = await sha256(encodedEnvelope);
  const leaf = new Uint8Array(LEAF_BYTES);
  encodeLeaf(leaf, 0, encodedEnvelope, envelopeHash, commitment);
  return leaf;
}

async function check(given: ProofCheck): Promise<ProofVerdict> {
  const { proof, extra, checkpoint } = readProof(given.proof);
  const { index, path } = proof;
  const keys = await trustedKeys(given);
  const signedBy = await checkSignature(proof.checkpoint, checkpoint.origin, keys);
  if (given.body !== undefined) checkEventId(given.body, extra.envelope.eventId);
  const leafHash = await hashLeaf(await leafOf(extra, given.body));
  const root = await rootFromInclusion(leafHash, index, checkpoint.size, path);
  if (root === undefined) {
    const place = `a leaf at index ${index} with a path of ${path.length} hashes`;
    throw new Refusal('not-in-tree', `A tree of ${checkpoint.size} leaves cannot have ${place}.`);
  }
  if (hex(root) !== hex(checkpoint.root)) {
    const message =
      'The body and the proof do not lead to the signed root: the body is not the one that ' +
      'was logged, byte for byte, or the envelope, salt, index or path in the proof was changed.';
    throw new Refusal('event-differs', message);
  }
  const content = given.body === undefined ? 'erased' : 'body';
  return { valid: true, envelope: extra.envelope, content, index, checkpoint, signedBy };
}

/**
 * Checks the proof of one event from its arguments alone: without files, network or clock.
 *
 * @returns the verdict, for any input; `valid` is true only when every check has passed.
 * @throws CryptographyMissing when the runtime has no Ed25519 or SHA-256: nothing was checked.
 */
export async function checkProof(given: ProofCheck): Promise<ProofVerdict> {
  try {
    return await check(given);
  } catch (error) {
    if (error instanceof Refusal) return { valid: false, reason: error.reason, message: error.message };
    throw error;
  }
}
