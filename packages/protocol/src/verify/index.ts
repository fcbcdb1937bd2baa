/**
 * The verifier: reads proofs, checkpoints, key rotations and signed notes, and checks them. It needs neither
 * the log nor a network, and runs in Node (20 or newer) and in a browser, on the web's own cryptography.
 */
export { ENVELOPE_FIXED_BYTES, LEAF_BYTES, SALT_BYTES } from '../leaf.js';
export { decodeEnvelope, encodeEnvelope, encodeLeaf, envelopeSize } from '../leaf.js';
export type { Envelope } from '../leaf.js';
export { decodeBase64, encodeBase64 } from './encoding.js';
export { checkProof } from './check-proof.js';
export type { ProofCheck, ProofFault, ProofVerdict } from './check-proof.js';
export { formatCheckpoint, parseCheckpoint } from './checkpoint.js';
export type { Checkpoint } from './checkpoint.js';
export { hashLeaf, rootFromInclusion } from './hashing.js';
export {
  assertBothSigned,
  followRotations,
  formatRotation,
  parseRotation,
  RotationRefused,
} from './rotation.js';
export type { Rotation } from './rotation.js';
export {
  claimsOf,
  forged,
  formatNote,
  formatVerifierKey,
  KeyMalformed,
  keyIdInput,
  keyIdText,
  NoteMalformed,
  parseNote,
  parseVerifierKey,
  splitNotes,
} from './signed-note.js';
export type { Claim, NoteSignature, SignedNote, VerifierKey } from './signed-note.js';
export { formatProof, parseProof } from './tlog-proof.js';
export type { TlogProof } from './tlog-proof.js';
export { NoteForged, NoteUnsigned, verifyNote } from './signed-note.js';
export { CryptographyMissing } from './hashing.js';
