/**
 * Whether an event is in the log, by a proof file, the event's body and the log's verifier key alone.
 *
 * What is proved: anyone who holds the key has signed a tree that has, at this index, a leaf for exactly this
 * body, received at the time and under the organisation, API key, kind and profile that the envelope tells.
 * What is not: that the log has no other tree to show to someone else. Checkpoints held off the host are for
 * that.
 *
 * The proof and the rotations come from the party that is being checked, and the body from anywhere. Whatever
 * they hold, the answer is a verdict.
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

/** Why a proof does not hold. Closed; a reason never changes its meaning. */
export type ProofFault =
  /** The file is no proof of this log's, whatever it may prove. */
  | 'proof-malformed'
  /** A verifier key that the caller gave cannot be used. */
  | 'key-unusable'
  /** A rotation note that the caller gave is none, or hands a trusted key over without both signatures. */
  | 'rotation-refused'
  /** No trusted key has signed the checkpoint. */
  | 'untrusted-key'
  /** The checkpoint names a trusted key and has a signature that is not that key's. */
  | 'signature-forged'
  /** The checkpoint is of another log than the key that signed it. */
  | 'origin-differs'
  /** The body is that of another event than the one of the proof. */
  | 'other-event'
  /** The tree of the checkpoint cannot have a leaf where the proof says, or not with such a path. */
  | 'not-in-tree'
  /** Body, envelope, salt and path do not lead to the signed root: one of them is not what was logged. */
  | 'event-differs';

export type ProofVerdict =
  | {
      readonly valid: true;
      /** What the log recorded along with the body. */
      readonly envelope: Envelope;
      /**
       * `erased`: the log has destroyed its body since, and nothing can be said of it but that there was one.
       */
      readonly content: 'body' | 'erased';
      /** Of the leaf, from zero: the event's sequence less one. */
      readonly index: number;
      readonly checkpoint: Checkpoint;
      /** The verifier key of the log that signed the checkpoint. */
      readonly signedBy: string;
    }
  | {
      readonly valid: false;
      readonly reason: ProofFault;
      /** For an auditor, in whole sentences. Quotes nothing of proof or body but event ids and key ids. */
      readonly message: string;
    };

export interface ProofCheck {
  /** The proof file. */
  readonly proof: string;
  /** The event as it was sent, byte for byte; not to be given for one whose body the log has destroyed. */
  readonly body?: Uint8Array | undefined;
  /** Verifier keys of the log that the caller trusts, from a source other than the proof's. */
  readonly keys: readonly string[];
  /** Rotation notes of the log, the oldest first, by which those keys lead to later ones. */
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
  /** Undefined when the body was destroyed, and the salt with it. */
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

async function trustedKeys({ keys, rotations = [] }: ProofCheck): Promise<readonly string[]> {
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

/** The ids that the checkpoint names as those of its signers, as many as fit in a message. */
function signerIds(note: string): string {
  const ids = parseNote(note).signatures.map(({ keyId }) => keyIdText(keyId));
  return ids.slice(0, 8).join(', ') + (ids.length > 8 ? ', …' : '');
}

/** @returns the trusted key of the checkpoint's log that has signed it. */
async function checkSignature(note: string, origin: string, keys: readonly string[]): Promise<string> {
  try {
    const { signedBy } = await verifyNote(note, keys);
    const ofTheLog = signedBy.find((vkey) => parseVerifierKey(vkey).name === origin);
    if (ofTheLog !== undefined) return ofTheLog;
  } catch (error) {
    if (error instanceof NoteUnsigned) {
      const message = `The checkpoint is signed by none of the trusted keys. It names the key ids ${signerIds(note)}.`;
      throw new Refusal('untrusted-key', message);
    }
    if (error instanceof NoteForged) {
      const message = `The checkpoint is forged or damaged: ${error.message}.`;
      throw new Refusal('signature-forged', message);
    }
    throw error;
  }
  throw new Refusal('origin-differs', 'The checkpoint is of another log than the key that has signed it.');
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function uuidText(bytes: Uint8Array): string {
  return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** The event_id in the body. Undefined when it is no JSON object with one. */
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
      : 'The log has destroyed the body of this event before it made the proof: no body can be checked by it.',
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
      'The body and the proof do not lead to the root that the log has signed: the body is not the one that ' +
      'was logged, byte for byte, or the envelope, salt, index or path in the proof was changed.';
    throw new Refusal('event-differs', message);
  }
  const content = given.body === undefined ? 'erased' : 'body';
  return { valid: true, envelope: extra.envelope, content, index, checkpoint, signedBy };
}

/**
 * Checks the proof of one event, by what it is given and nothing else: no file, no network, no clock.
 *
 * @returns the verdict. Input of any content gets one; `valid` is true only when every check has passed.
 * @throws CryptographyMissing when the runtime offers no Ed25519 or SHA-256: nothing was checked then.
 */
export async function checkProof(given: ProofCheck): Promise<ProofVerdict> {
  try {
    return await check(given);
  } catch (error) {
    if (error instanceof Refusal) return { valid: false, reason: error.reason, message: error.message };
    throw error;
  }
}
