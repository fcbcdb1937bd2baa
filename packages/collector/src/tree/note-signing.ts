/**
 * Checks who signed notes (C2SP signed-note, tlog-cosignature), on Node's own cryptography and at once: the collector has
 * no use for the promises of the verifier that runs in browsers (packages/protocol/src/verify). Pure.
 *
 * A signature by a key that is not known says nothing and is passed over; one that names a known key and is not that
 * key's condemns the note.
 */
import { type KeyObject, createPublicKey, hash, verify } from 'node:crypto';
import {
  assertBothSigned,
  type Checkpoint,
  claimsOf,
  forged,
  formatVerifierKey,
  keyIdInput,
  keyIdText,
  KeyMalformed,
  NoteForged,
  parseCheckpoint,
  parseNote,
  parseRotation,
  parseVerifierKey,
  RotationRefused,
} from '@clinical-events/protocol/verify';
import { messageOf } from '../system-code.js';

/* The seam to whatever holds the log's signing key: a file, a command, a KMS. */

export interface CheckpointSigner {
  /** The name of the log and of each of its keys. */
  readonly origin: string;
  /** Every key that may have signed for this log, in the order in which they took over. May grow at a rotation. */
  readonly keys: readonly NoteKey[];
  /**
   * The text as a signed note, by the current key and, while an overlap lasts, by the one before.
   * Rejects when there is no signature to be had now; it may be asked again.
   */
  sign(text: string): Promise<string>;
  /** On return `keys` has what was rotated elsewhere; where nothing is, it is not there. */
  refresh?(): Promise<void>;
}

/** Signature types that the specification assigns. */
export const NOTE_ED25519 = 0x01;
const COSIGNATURE_ED25519 = 0x04;
const COSIGNATURE_ML_DSA_44 = 0x06;

/** What makes a raw public key the DER of a SubjectPublicKeyInfo: RFC 8410 section 4, RFC 9881 section 4. */
const ED25519 = { spkiPrefix: Buffer.from('302a300506032b6570032100', 'hex'), keyBytes: 32 } as const;
const ML_DSA_44 = {
  spkiPrefix: Buffer.from('30820532300b06096086480165030403110382052100', 'hex'),
  keyBytes: 1312,
} as const;

const TIME_BYTES = 8;
/** A name has a length of one byte in what a witness signs by ML-DSA-44. */
const LONGEST_NAME = 255;

/** A verifier key that can be used: its key id is that of its key. */
export interface NoteKey {
  readonly vkey: string;
  readonly name: string;
  readonly keyId: number;
  /** The signature type: 1 signs notes, 4 and 6 cosign checkpoints. */
  readonly type: number;
  readonly publicKey: KeyObject;
}

function keyIdOf(name: string, type: number, publicKey: Uint8Array): number {
  return hash('sha256', keyIdInput({ name, type, publicKey }), 'buffer').readUInt32BE();
}

/**
 * The verifier key under which this Ed25519 key signs notes.
 * @throws KeyMalformed when the name cannot be that of a key, or the key is not an Ed25519 key.
 */
export function verifierKeyOf(name: string, publicKey: KeyObject): string {
  if (publicKey.asymmetricKeyType !== 'ed25519') throw new KeyMalformed('the key is not an Ed25519 key');
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(ED25519.spkiPrefix.length);
  return formatVerifierKey({
    name,
    keyId: keyIdOf(name, NOTE_ED25519, raw),
    type: NOTE_ED25519,
    publicKey: raw,
  });
}

/**
 * Reads a verifier key: of a log (type 1), or of a witness (types 4 and 6).
 * @throws KeyMalformed when it is not one, is of another type, or its key id is not that of its name and key.
 */
export function noteKey(vkey: string): NoteKey {
  const { name, keyId, type, publicKey: raw } = parseVerifierKey(vkey);
  if (![NOTE_ED25519, COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44].includes(type)) {
    throw new KeyMalformed(`the verifier key is of type ${type}, which is not known here`);
  }
  const { spkiPrefix, keyBytes } = type === COSIGNATURE_ML_DSA_44 ? ML_DSA_44 : ED25519;
  if (raw.length !== keyBytes) throw new KeyMalformed(`a key of type ${type} has ${keyBytes} bytes`);
  if (keyIdOf(name, type, raw) !== keyId) {
    throw new KeyMalformed('the key id of the verifier key is not that of its name and key');
  }
  let publicKey: KeyObject;
  try {
    publicKey = createPublicKey({ key: Buffer.concat([spkiPrefix, raw]), format: 'der', type: 'spki' });
  } catch (cause) {
    // ML-DSA takes OpenSSL 3.5, which a Node linked to the system's may not have.
    throw new KeyMalformed('the key cannot be used by this build of Node', { cause });
  }
  return { vkey, name, keyId, type, publicKey };
}

/**
 * A log has no key but those that its rotations name. So a signature of its name by another one is of a rotation whose
 * note is gone, and the key that it retired would sign again.
 * @param keys all of the log, which have one name.
 * @returns the id of that key, in hexadecimal digits; undefined without one, or when none of `keys` has signed.
 */
export function unknownSigner(note: string, keys: readonly NoteKey[]): string | undefined {
  const known = new Set(keys.map(({ keyId }) => keyId));
  const names = new Set(keys.map(({ name }) => name));
  const signatures = parseNote(note).signatures.filter(({ name }) => names.has(name));
  const found = signatures.find(({ keyId }) => !known.has(keyId));
  // Of a note that none of the keys has signed, that is what is wrong.
  if (found === undefined || !signatures.some(({ keyId }) => known.has(keyId))) return undefined;
  return keyIdText(found.keyId);
}

/** @param keyId from {@link unknownSigner}. */
export function rotationMissing(keyId: string): string {
  return `the key ${keyId} has signed it too, and no note in checkpoints/rotations hands on to that one`;
}

/**
 * Checks the signatures of the known keys under a note.
 * @param keys of type 1.
 * @returns the text of the note, and those of `keys` that have signed it: at least one.
 * @throws NoteMalformed, NoteUnsigned, NoteForged; KeyMalformed when a key is one of a witness.
 */
export function verifyNote(note: string, keys: readonly NoteKey[]): { text: string; signedBy: NoteKey[] } {
  const { text, signatures } = parseNote(note);
  const witness = keys.find(({ type }) => type !== NOTE_ED25519);
  if (witness !== undefined) throw new KeyMalformed(`a key of type ${witness.type} does not sign notes`);
  const claims = claimsOf(signatures, keys);
  for (const claim of claims) {
    if (!verify(null, Buffer.from(text), claim.key.publicKey, claim.signature)) throw forged(claim);
  }
  return { text, signedBy: [...new Set(claims.map(({ key }) => key))] };
}

/** What a witness signs by Ed25519: two lines, and then the whole text of the checkpoint. */
function ed25519Cosigned(text: string, time: bigint): Buffer {
  return Buffer.from(`cosignature/v1\ntime ${time}\n${text}`);
}

/** What it signs by ML-DSA-44: a structure of its own name and of what the checkpoint says. */
function mlDsaCosigned(
  { origin, size, root }: Checkpoint,
  time: bigint,
  cosigner: string,
): Buffer | undefined {
  const named = [cosigner, origin].map((name) => Buffer.from(name));
  if (named.some(({ length }) => length > LONGEST_NAME)) return undefined;
  const [cosignerName = Buffer.alloc(0), logOrigin = Buffer.alloc(0)] = named;
  const numbers = Buffer.alloc(3 * TIME_BYTES);
  numbers.writeBigUInt64BE(time, 0);
  // The subtree of a checkpoint begins at leaf 0.
  numbers.writeBigUInt64BE(BigInt(size), 2 * TIME_BYTES);
  return Buffer.concat([
    Buffer.from('subtree/v1\n\0'),
    Buffer.of(cosignerName.length),
    cosignerName,
    numbers.subarray(0, TIME_BYTES),
    Buffer.of(logOrigin.length),
    logOrigin,
    numbers.subarray(TIME_BYTES),
    root,
  ]);
}

/**
 * Checks the cosignature of a witness under a checkpoint. Says nothing of the log's own signature.
 * @param witnessKey of type 4 or 6.
 * @returns the text of the checkpoint, and when the witness says that it was the newest one it had seen: seconds
 *   since 1970 UTC, the latest when it cosigned more than once.
 * @throws NoteMalformed; NoteUnsigned when the witness has not cosigned it; NoteForged when a
 *   signature names the witness's key and is not its own, or tells no time, which a witness must; KeyMalformed when
 *   the key is not one of a witness.
 */
export function verifyCosignature(note: string, witnessKey: NoteKey): { text: string; time: number } {
  const { type, name, publicKey } = witnessKey;
  if (type !== COSIGNATURE_ED25519 && type !== COSIGNATURE_ML_DSA_44) {
    throw new KeyMalformed(`a key of type ${type} does not cosign checkpoints`);
  }
  const { text, signatures } = parseNote(note);
  const checkpoint = parseCheckpoint(text);
  let latest = 0n;
  const claims = claimsOf(signatures, [witnessKey], 'the witness has not cosigned the checkpoint');
  for (const claim of claims) {
    const timed = Buffer.from(claim.signature);
    if (timed.length <= TIME_BYTES) throw forged(claim);
    const time = timed.readBigUInt64BE();
    const cosigned =
      type === COSIGNATURE_ED25519 ? ed25519Cosigned(text, time) : mlDsaCosigned(checkpoint, time, name);
    if (cosigned === undefined || !verify(null, cosigned, publicKey, timed.subarray(TIME_BYTES))) {
      throw forged(claim);
    }
    if (time === 0n || time > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw new NoteForged('the cosignature of the witness tells no time at which it can have been made');
    }
    if (time > latest) latest = time;
  }
  return { text, time: Number(latest) };
}

/*
 * The keys of a log, from the one that it began with to the one that signs now: each handed over to the next by a
 * note that both have signed (rotation.ts in the protocol says what stands in it). Pure.
 *
 * Stricter than the verifier that is given a proof, which may hold a later key and passes over what came before: here
 * all of it is there, and whatever does not fit is a fault.
 */

export interface KeyChain {
  /** In the order in which they took over; at least one. */
  readonly keys: NoteKey[];
  /** The last of them. */
  readonly current: NoteKey;
  /** Of each key but the last, the end of its overlap as its rotation note says it: milliseconds since 1970 UTC. */
  readonly until: number[];
}

/** One step of the chain. */
interface Handover {
  readonly to: NoteKey;
  readonly until: number;
}

/**
 * @param first verifier key that the log began with; its name is the log's origin.
 * @param rotations every rotation note of the log, in order.
 * @throws KeyMalformed when the first key is not one of a log, RotationRefused.
 */
export function keyChain(first: string, rotations: readonly string[]): KeyChain {
  let current = noteKey(first);
  if (current.type !== NOTE_ED25519) throw new KeyMalformed('the first key of a log does not sign notes');
  const ends: number[] = [];
  const keys = [current];
  for (const [at, note] of rotations.entries()) {
    try {
      const { to, until } = handover(note, current);
      if (keys.some(({ vkey }) => vkey === to.vkey))
        throw new Error('it hands over to a key that the log had before');
      keys.push(to);
      current = to;
      ends.push(until);
    } catch (error) {
      const reason = messageOf(error);
      throw new RotationRefused(`rotation note ${at + 1}: ${reason}`, { cause: error });
    }
  }
  return { keys, current, until: ends };
}

/** What the note says, once it is sure that it follows on from this key and that both keys have signed it. */
function handover(note: string, from: NoteKey): Handover {
  const rotation = parseRotation(parseNote(note).text);
  const { origin, oldKey, newKey, until } = rotation;
  if (origin !== from.name) throw new Error('it is of another log');
  if (oldKey !== from.vkey) throw new Error(`it is not from the key that the log had by then, ${from.vkey}`);
  const to = noteKey(newKey);
  const { signedBy } = verifyNote(note, [from, to]);
  assertBothSigned(
    rotation,
    signedBy.map(({ vkey }) => vkey),
  );
  const instant = Date.parse(until);
  // A leap second is an instant to RFC 3339 and none to JavaScript.
  if (Number.isNaN(instant)) throw new Error('the end of its overlap cannot be read');
  return { to, until: instant };
}
