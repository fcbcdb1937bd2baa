/**
 * The text of a checkpoint (C2SP tlog-checkpoint): the log's name, the number of leaves, and the root of the
 * Merkle tree. It is the text of a signed note, and must not be trusted before the note is verified.
 */
import { decodeBase64, encodeBase64, parseDecimal } from './encoding.js';
import { ROTATION_HEADER } from './rotation.js';
import { NoteMalformed } from './signed-note.js';

const HASH_BYTES = 32;

export interface Checkpoint {
  /** The name of the log; in this log also the name of the signing key. */
  readonly origin: string;
  /** The number of leaves. */
  readonly size: number;
  /** The root of the tree, 32 bytes. */
  readonly root: Uint8Array;
}

/**
 * Parses the text of a checkpoint. Extension lines, which this log never writes, are accepted and ignored, as
 * the specification requires.
 * @throws NoteMalformed
 */
export function parseCheckpoint(text: string): Checkpoint {
  if (!text.endsWith('\n')) throw new NoteMalformed('the checkpoint does not end with a newline');
  const lines = text.slice(0, -1).split('\n');
  const [origin, sizeText, rootText] = lines;
  if (origin === undefined || sizeText === undefined || rootText === undefined || lines.includes('')) {
    throw new NoteMalformed('a checkpoint has at least three lines, none of them empty');
  }
  if (origin === ROTATION_HEADER) {
    throw new NoteMalformed('the text is that of a key rotation and not of a checkpoint');
  }
  const size = parseDecimal(sizeText);
  if (size === undefined) throw new NoteMalformed('the tree size of the checkpoint is not a number');
  const root = decodeBase64(rootText);
  if (root?.length !== HASH_BYTES) {
    throw new NoteMalformed('the root of the checkpoint is not the base64 of 32 bytes');
  }
  return { origin, size, root };
}

/**
 * Formats a text for signing, which `parseCheckpoint` reads.
 * @throws NoteMalformed when the parts do not make a checkpoint.
 */
export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  const text = `${origin}\n${String(size)}\n${encodeBase64(root)}\n`;
  const read = parseCheckpoint(text);
  if (read.origin !== origin) throw new NoteMalformed('the origin is not one line');
  return text;
}
