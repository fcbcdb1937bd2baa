/**
 * The text of a checkpoint (C2SP tlog-checkpoint): which log, how many leaves, and the root of the Merkle
 * tree over them. It is the text of a signed note, and worth nothing before the note is verified.
 */
import { decodeBase64, encodeBase64, parseDecimal } from './encoding.js';
import { ROTATION_HEADER } from './rotation.js';
import { NoteMalformed } from './signed-note.js';

const HASH_BYTES = 32;

export interface Checkpoint {
  /** The name of the log; in this log also that of the key that signs. */
  readonly origin: string;
  /** How many leaves the tree has. */
  readonly size: number;
  /** The root of the tree, 32 bytes. */
  readonly root: Uint8Array;
}

/**
 * Reads the text of a checkpoint. Extension lines, which this log never writes, are let through and not
 * returned, as the specification asks.
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
 * The text that `parseCheckpoint` reads, to be signed.
 * @throws NoteMalformed when the parts do not make a checkpoint.
 */
export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  const text = `${origin}\n${String(size)}\n${encodeBase64(root)}\n`;
  const read = parseCheckpoint(text);
  if (read.origin !== origin) throw new NoteMalformed('the origin is not one line');
  return text;
}
