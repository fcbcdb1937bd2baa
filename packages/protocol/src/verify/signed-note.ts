/**
 * Signed notes (C2SP signed-note): a text, signatures below it, and the matching verifier keys.
 *
 * A note comes from the party that is being checked, so its size is limited before it is parsed, and a
 * malformed note is refused with NoteMalformed, whose message does not quote it.
 */
import { decodeBase64, encodeBase64 } from './encoding.js';
import { ed25519Holds, sha256 } from './hashing.js';

/** In characters: a thousand times the size of a checkpoint with post-quantum witnesses. */
const LONGEST_NOTE = 1 << 20;
/** The specification requires at least 16. */
const MOST_SIGNATURES = 128;
const LONGEST_VERIFIER_KEY = 1 << 14;

const KEY_ID_BYTES = 4;
/** U+2014 and a space. */
const SIGNATURE_MARK = '\u2014 ';
const SPACE_OR_PLUS = /[\p{White_Space}+]/u;
/** Control characters below U+0020 except newline. */
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0009\u000b-\u001f]/;
const KEY_ID_TEXT = /^[0-9a-f]{8}$/;

/** Ed25519 over the text of a note. */
export const NOTE_ED25519 = 0x01;
/** Ed25519 over a checkpoint and a time (C2SP tlog-cosignature). */
const COSIGNATURE_ED25519 = 0x04;
const ED25519_KEY_BYTES = 32;

/** The text is not a signed note, or does not hold the checkpoint, rotation or proof that it should. */
export class NoteMalformed extends Error {
  override name = 'NoteMalformed';
}

/** The text is not a verifier key, or its key id does not match its key; the message has the reason. */
export class KeyMalformed extends Error {
  override name = 'KeyMalformed';
}

export interface NoteSignature {
  /** The name of the signing key. */
  readonly name: string;
  /** A uint32 that distinguishes keys of the same name; not cryptographically strong. */
  readonly keyId: number;
  readonly signature: Uint8Array;
}

export interface SignedNote {
  /** The signed text. Ends with a newline. */
  readonly text: string;
  /** At least one, in the order of the note. None has been verified. */
  readonly signatures: readonly NoteSignature[];
}

export interface VerifierKey {
  readonly name: string;
  readonly keyId: number;
  /** The number of the algorithm in the specification. */
  readonly type: number;
  readonly publicKey: Uint8Array;
}

/** A key id in its written form: eight lowercase hexadecimal digits. */
export function keyIdText(keyId: number): string {
  return keyId.toString(16).padStart(2 * KEY_ID_BYTES, '0');
}

/** Whether the text can name a key: not empty, no Unicode space, no plus, no control character. */
function isKeyName(name: string): boolean {
  return name !== '' && !SPACE_OR_PLUS.test(name) && !CONTROL.test(name) && name.isWellFormed();
}

function uint32(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
}

function parseSignature(line: string): NoteSignature {
  if (!line.startsWith(SIGNATURE_MARK)) throw new NoteMalformed('a signature line does not begin as one');
  const [name = '', encoded, ...more] = line.slice(SIGNATURE_MARK.length).split(' ');
  if (!isKeyName(name) || encoded === undefined || more.length > 0) {
    throw new NoteMalformed('a signature line is not a key name and a signature');
  }
  const bytes = decodeBase64(encoded);
  if (bytes === undefined || bytes.length <= KEY_ID_BYTES) {
    throw new NoteMalformed('a signature is not the base64 of a key id and a signature');
  }
  return { name, keyId: uint32(bytes), signature: bytes.subarray(KEY_ID_BYTES) };
}

/** @throws NoteMalformed when the text has characters that a note cannot have. */
function checkCharacters(note: string): void {
  if (note.length > LONGEST_NOTE) throw new NoteMalformed('the note is longer than 1 MiB');
  if (!note.isWellFormed()) throw new NoteMalformed('the note is not Unicode text');
  if (CONTROL.test(note)) throw new NoteMalformed('the note has a control character');
}

/**
 * Parses a signed note. No signature is verified, so the text must not be trusted.
 * @throws NoteMalformed
 */
export function parseNote(note: string): SignedNote {
  checkCharacters(note);
  // The last empty line, because the text may contain others.
  const blank = note.lastIndexOf('\n\n');
  if (blank === -1) throw new NoteMalformed('the note has no empty line between text and signatures');
  if (!note.endsWith('\n')) throw new NoteMalformed('the note does not end with a newline');
  const block = note.slice(blank + 2, -1);
  if (block === '') throw new NoteMalformed('the note has no signature');
  const lines = block.split('\n');
  if (lines.length > MOST_SIGNATURES) throw new NoteMalformed('the note has more than 128 signatures');
  return { text: note.slice(0, blank + 1), signatures: lines.map(parseSignature) };
}

/**
 * Formats a signed note that `parseNote` reads back unchanged.
 * @throws NoteMalformed for a text that does not end with a newline or has control characters, no signature
 *   or more than 128, or an invalid name.
 */
export function formatNote(text: string, signatures: readonly NoteSignature[]): string {
  if (!text.endsWith('\n')) throw new NoteMalformed('the text of the note does not end with a newline');
  let note = `${text}\n`;
  for (const { name, keyId, signature } of signatures) {
    if (!isKeyName(name)) throw new NoteMalformed('the name of a key is empty or has a space in it');
    const bytes = new Uint8Array(KEY_ID_BYTES + signature.length);
    new DataView(bytes.buffer).setUint32(0, keyId);
    bytes.set(signature, KEY_ID_BYTES);
    note += `${SIGNATURE_MARK}${name} ${encodeBase64(bytes)}\n`;
  }
  parseNote(note);
  return note;
}

/**
 * Parses a verifier key, `name+key id+base64 of type and key`. Syntax only: verifiers check with a hash that
 * the key id matches the key.
 * @throws KeyMalformed
 */
export function parseVerifierKey(vkey: string): VerifierKey {
  if (vkey.length > LONGEST_VERIFIER_KEY) throw new KeyMalformed('the verifier key is too long');
  // Neither name nor key id has a plus, but base64 may.
  const [name = '', id = '', ...rest] = vkey.split('+');
  if (rest.length === 0) {
    throw new KeyMalformed('a verifier key is a name, a key id and a key, joined by plus signs');
  }
  if (!isKeyName(name)) throw new KeyMalformed('the name of the verifier key is empty or has a space in it');
  if (!KEY_ID_TEXT.test(id)) throw new KeyMalformed('the key id is not eight lowercase hexadecimal digits');
  const bytes = decodeBase64(rest.join('+'));
  const [type] = bytes ?? [];
  if (bytes === undefined || type === undefined || bytes.length === 1) {
    throw new KeyMalformed('the key is not the base64 of a type and a public key');
  }
  const publicKey = bytes.subarray(1);
  if ((type === NOTE_ED25519 || type === COSIGNATURE_ED25519) && publicKey.length !== ED25519_KEY_BYTES) {
    throw new KeyMalformed('an Ed25519 key has 32 bytes');
  }
  return { name, keyId: Number.parseInt(id, 16), type, publicKey };
}

/**
 * Formats a verifier key that `parseVerifierKey` reads back unchanged.
 * @throws KeyMalformed when that is impossible.
 */
export function formatVerifierKey(key: VerifierKey): string {
  const bytes = new Uint8Array(1 + key.publicKey.length);
  bytes[0] = key.type;
  bytes.set(key.publicKey, 1);
  const vkey = `${key.name}+${keyIdText(key.keyId)}+${encodeBase64(bytes)}`;
  parseVerifierKey(vkey);
  return vkey;
}

const SIGNATURE_BLOCK = new RegExp(`^\\n?(?:${SIGNATURE_MARK}[^\\n]*(?:\\n|$))+$`);

/**
 * Splits a file of notes, each followed by an empty line. A note ends with the first paragraph after its text
 * in which every line begins like a signature.
 *
 * Never throws. An incomplete note at the end is returned last, unchanged, so that readers notice the
 * truncation.
 */
export function splitNotes(text: string): string[] {
  const notes: string[] = [];
  const paragraphs = text.split('\n\n');
  let note: string | undefined;
  for (const [at, paragraph] of paragraphs.entries()) {
    if (note === undefined) {
      // Empty lines between notes and at the end of the file belong to no note.
      const begun = paragraph.replace(/^\n+/, '');
      if (begun !== '') note = begun;
      continue;
    }
    note += `\n\n${paragraph}`;
    if (SIGNATURE_BLOCK.test(paragraph)) {
      notes.push(at === paragraphs.length - 1 ? note : `${note}\n`);
      note = undefined;
    }
  }
  if (note !== undefined) notes.push(note);
  return notes;
}

/*
 * The signers of a note (C2SP signed-note, Ed25519). A signature by an unknown key is ignored, even under a
 * known name; an invalid signature by a known key makes the note invalid.
 */

/** No known key has signed the note. */
export class NoteUnsigned extends Error {
  override name = 'NoteUnsigned';
}

/** A signature in the note names a known key and is not that key's. */
export class NoteForged extends Error {
  override name = 'NoteForged';
}

const encoder = new TextEncoder();

/** The input of a key id, which is the first four bytes of its SHA-256. */
export function keyIdInput({ name, type, publicKey }: Omit<VerifierKey, 'keyId'>): Uint8Array {
  const named = encoder.encode(`${name}\n`);
  const input = new Uint8Array(named.length + 1 + publicKey.length);
  input.set(named);
  input[named.length] = type;
  input.set(publicKey, named.length + 1);
  return input;
}

/**
 * Parses a verifier key and checks that its key id matches. Only Ed25519 keys for notes are accepted.
 * @throws KeyMalformed, CryptographyMissing
 */
export async function checkedKey(vkey: string): Promise<VerifierKey> {
  const key = parseVerifierKey(vkey);
  if (key.type !== NOTE_ED25519) throw new KeyMalformed('the verifier key is not an Ed25519 key for notes');
  if (uint32(await sha256(keyIdInput(key))) !== key.keyId) {
    throw new KeyMalformed('the key id of the verifier key is not that of its name and key');
  }
  return key;
}

/** A signature that names a known key and has yet to be checked. */
export interface Claim<Key> {
  readonly key: Key;
  readonly signature: Uint8Array;
}

/**
 * The signatures of a note that name one of the keys, in the order of the keys.
 * @throws NoteUnsigned with this message when there is none.
 */
export function claimsOf<Key extends Pick<VerifierKey, 'name' | 'keyId'>>(
  signatures: readonly NoteSignature[],
  keys: readonly Key[],
  unsigned = 'none of the known keys has signed the note',
): Claim<Key>[] {
  const claims = keys.flatMap((key) =>
    signatures
      .filter(({ name, keyId }) => name === key.name && keyId === key.keyId)
      .map(({ signature }) => ({ key, signature })),
  );
  if (claims.length === 0) throw new NoteUnsigned(unsigned);
  return claims;
}

/** The error for a {@link Claim} that is not valid. */
export function forged({ key }: Claim<Pick<VerifierKey, 'keyId'>>): NoteForged {
  return new NoteForged(`a signature in the note is not by the key ${keyIdText(key.keyId)} that it names`);
}

/**
 * Checks the signatures of the known keys on a note.
 *
 * @param keys the known verifier keys.
 * @returns the text of the note, and the keys that signed it: at least one.
 * @throws NoteMalformed, KeyMalformed, NoteUnsigned, NoteForged, CryptographyMissing
 */
export async function verifyNote(
  note: string,
  keys: readonly string[],
): Promise<{ text: string; signedBy: string[] }> {
  const { text, signatures } = parseNote(note);
  const message = encoder.encode(text);
  const known: (VerifierKey & { readonly vkey: string })[] = [];
  for (const vkey of new Set(keys)) known.push({ ...(await checkedKey(vkey)), vkey });
  const claims = claimsOf(signatures, known);
  for (const claim of claims) {
    if (!(await ed25519Holds(claim.key.publicKey, claim.signature, message))) throw forged(claim);
  }
  return { text, signedBy: [...new Set(claims.map(({ key }) => key.vkey))] };
}
