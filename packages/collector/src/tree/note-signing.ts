/**
 * Verifies the signatures of notes (C2SP signed-note, tlog-cosignature) synchronously, by Node's
 * cryptography; packages/protocol/src/verify is the asynchronous verifier for browsers. Pure.
 *
 * A signature by an unknown key is ignored. An invalid signature by a known key makes the note invalid.
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

/* The interface to the log's signing key: a file, a command, a KMS. */

export interface CheckpointSigner {
  /** The name of the log and of each of its keys. */
  readonly origin: string;
  /** Every key that may have signed for this log, in the order of the rotations. It may grow. */
  readonly keys: readonly NoteKey[];
  /**
   * Signs a text as a note, by the current key and, during an overlap, by the previous one. Rejects if no
   * signature is available now; the caller may try again.
   */
  sign(text: string): Promise<string>;
  /** Adds rotations by other processes to `keys`. Undefined if no other process rotates keys. */
  refresh?(): Promise<void>;
}

/** Signature types of the specification. */
export const NOTE_ED25519 = 0x01;
const COSIGNATURE_ED25519 = 0x04;
const COSIGNATURE_ML_DSA_44 = 0x06;

/**
 * The DER prefix of a SubjectPublicKeyInfo before a raw public key: RFC 8410 section 4, RFC 9881 section 4.
 */
const ED25519 = { spkiPrefix: Buffer.from('302a300506032b6570032100', 'hex'), keyBytes: 32 } as const;
const ML_DSA_44 = {
  spkiPrefix: Buffer.from('30820532300b06096086480165030403110382052100', 'hex'),
  keyBytes: 1312,
} as const;

const TIME_BYTES = 8;
/** Maximum length of a name: in a cosignature by ML-DSA-44 it has one byte. */
const LONGEST_NAME = 255;

/** A valid verifier key: its key id matches its name and key. */
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
 * The verifier key for notes that this Ed25519 key signs.
 * @throws KeyMalformed if the name is invalid, or the key is not an Ed25519 key.
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
 * Parses a verifier key of a log (type 1) or of a witness (types 4 and 6).
 * @throws KeyMalformed if it is invalid, has another type, or its key id does not match its name and key.
 */
export function noteKey(vkey: string): NoteKey {
  const { name, keyId, type, publicKey: raw } = parseVerifierKey(vkey);
  if (![NOTE_ED25519, COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44].includes(type)) {
    throw new KeyMalformed(`the verifier key has the unknown type ${type}`);
  }
  const { spkiPrefix, keyBytes } = type === COSIGNATURE_ML_DSA_44 ? ML_DSA_44 : ED25519;
  if (raw.length !== keyBytes) throw new KeyMalformed(`a key of type ${type} has ${keyBytes} bytes`);
  if (keyIdOf(name, type, raw) !== keyId) {
    throw new KeyMalformed('the key id of the verifier key does not match its name and key');
  }
  let publicKey: KeyObject;
  try {
    publicKey = createPublicKey({ key: Buffer.concat([spkiPrefix, raw]), format: 'der', type: 'spki' });
  } catch (cause) {
    // ML-DSA needs OpenSSL 3.5, which a Node that uses the system's library may lack.
    throw new KeyMalformed('the key cannot be used by this build of Node', { cause });
  }
  return { vkey, name, keyId, type, publicKey };
}

/**
 * Finds a signature with the log's name by a key that no rotation note names: the note of that rotation is
 * missing, and the rotated key would sign again.
 * @param keys all keys of the log, which have one name.
 * @returns the id of that key in hexadecimal digits; undefined without one, or if no known key signed.
 */
export function unknownSigner(note: string, keys: readonly NoteKey[]): string | undefined {
  const known = new Set(keys.map(({ keyId }) => keyId));
  const names = new Set(keys.map(({ name }) => name));
  const signatures = parseNote(note).signatures.filter(({ name }) => names.has(name));
  const found = signatures.find(({ keyId }) => !known.has(keyId));
  // A note without a signature by a known key is reported elsewhere.
  if (found === undefined || !signatures.some(({ keyId }) => known.has(keyId))) return undefined;
  return keyIdText(found.keyId);
}

/** @param keyId from {@link unknownSigner}. */
export function rotationMissing(keyId: string): string {
  return `the key ${keyId} signed it too, and no note in checkpoints/rotations names that key`;
}

/**
 * Verifies the signatures of known keys under a note.
 * @param keys of type 1.
 * @returns the text of the note, and the keys that signed it: at least one.
 * @throws NoteMalformed, NoteUnsigned, NoteForged; KeyMalformed if a key belongs to a witness.
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

/** The input of a witness's Ed25519 signature: two lines and the text of the checkpoint. */
function ed25519Cosigned(text: string, time: bigint): Buffer {
  return Buffer.from(`cosignature/v1\ntime ${time}\n${text}`);
}

/** The input of its ML-DSA-44 signature: a structure with its name and the fields of the checkpoint. */
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
 * Verifies the cosignature of a witness under a checkpoint, but not the log's own signature.
 * @param witnessKey of type 4 or 6.
 * @returns the text of the checkpoint, and the time of the cosignature in seconds since 1970 UTC; the latest
 *   if there are several.
 * @throws NoteMalformed; NoteUnsigned if the witness has not cosigned it; NoteForged if a signature of the
 *   witness is invalid or has no time; KeyMalformed if the key does not belong to a witness.
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
      throw new NoteForged('the cosignature of the witness has an impossible time');
    }
    if (time > latest) latest = time;
  }
  return { text, time: Number(latest) };
}

/*
 * The chain of a log's keys from the first to the current one: a rotation note, which both keys sign,
 * connects each to the next (protocol, rotation.ts). Pure.
 *
 * It is stricter than the verifier of proofs, which may start at a later key: the chain must be complete, and
 * any mismatch is an error.
 */

export interface KeyChain {
  /** The keys in the order of the rotations; at least one. */
  readonly keys: NoteKey[];
  /** The last key. */
  readonly current: NoteKey;
  /** For each key but the last, the end of its overlap by the rotation note: milliseconds since 1970 UTC. */
  readonly until: number[];
}

/** A step of the chain. */
interface Handover {
  readonly to: NoteKey;
  readonly until: number;
}

/**
 * @param first verifier key that the log began with; its name is the log's origin.
 * @param rotations every rotation note of the log, in order.
 * @throws KeyMalformed if the first key is not the key of a log, RotationRefused.
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
        throw new Error('it names a key that the log had before');
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

/** The contents of a rotation note, after checking that it follows this key and that both keys signed it. */
function handover(note: string, from: NoteKey): Handover {
  const rotation = parseRotation(parseNote(note).text);
  const { origin, oldKey, newKey, until } = rotation;
  if (origin !== from.name) throw new Error('it belongs to another log');
  if (oldKey !== from.vkey) throw new Error(`it does not follow the key that the log had then, ${from.vkey}`);
  const to = noteKey(newKey);
  const { signedBy } = verifyNote(note, [from, to]);
  assertBothSigned(
    rotation,
    signedBy.map(({ vkey }) => vkey),
  );
  const instant = Date.parse(until);
  // RFC 3339 allows a leap second; Date does not.
  if (Number.isNaN(instant)) throw new Error('the end of its overlap is not a valid time');
  return { to, until: instant };
}
