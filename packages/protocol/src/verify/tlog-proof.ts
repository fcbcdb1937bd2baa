/**
 * The proof file of one event (C2SP tlog-proof, version 1): the index of its leaf, the hashes from there to
 * the root, and the signed checkpoint with the root.
 *
 * `extra` has the inputs of the leaf other than the event's body: the encoded envelope, then the salt. It is
 * authenticated only because the computed leaf is in the tree.
 */
import { decodeBase64, encodeBase64, parseDecimal } from './encoding.js';
import { NoteMalformed } from './signed-note.js';

const HEADER = 'c2sp.org/tlog-proof@v1';
const EXTRA = 'extra ';
const INDEX = 'index ';
const HASH_BYTES = 32;
/** A tree of 2^53 leaves, the largest that is supported, has paths of 53 hashes. */
const LONGEST_PATH = 64;
/** In characters: the longest note, plus the rest. */
const LONGEST_PROOF = 1 << 21;

export interface TlogProof {
  /** Empty when the file has no such line. */
  readonly extra: Uint8Array;
  /** The index of the leaf, from zero. */
  readonly index: number;
  /** 32 bytes each, from the sibling of the leaf to the child of the root. */
  readonly path: readonly Uint8Array[];
  /** A signed note, unchanged. */
  readonly checkpoint: string;
}

function parseHash(line: string): Uint8Array {
  const hash = decodeBase64(line);
  if (hash?.length !== HASH_BYTES) {
    throw new NoteMalformed('a line of the path is not the base64 of 32 bytes');
  }
  return hash;
}

/**
 * Parses a proof file. Nothing is verified, and the checkpoint is not parsed.
 * @throws NoteMalformed
 */
export function parseProof(file: string): TlogProof {
  if (file.length > LONGEST_PROOF) throw new NoteMalformed('the proof is longer than 2 MiB');
  const blank = file.indexOf('\n\n');
  if (blank === -1) throw new NoteMalformed('the proof has no empty line before the checkpoint');
  const checkpoint = file.slice(blank + 2);
  const [header, ...lines] = file.slice(0, blank).split('\n');
  if (header !== HEADER) throw new NoteMalformed(`the proof does not begin with ${HEADER}`);

  let extra: Uint8Array = new Uint8Array(0);
  if (lines[0]?.startsWith(EXTRA)) {
    const bytes = decodeBase64(lines[0].slice(EXTRA.length));
    if (bytes === undefined) throw new NoteMalformed('the extra data is not base64');
    if (bytes.length === 0) throw new NoteMalformed('the extra data is announced and missing');
    extra = bytes;
    lines.shift();
  }
  const indexLine = lines.shift();
  if (!indexLine?.startsWith(INDEX)) throw new NoteMalformed('the proof has no index of the leaf');
  const index = parseDecimal(indexLine.slice(INDEX.length));
  if (index === undefined) throw new NoteMalformed('the index of the leaf is not a number');
  if (lines.length > LONGEST_PATH) throw new NoteMalformed('the path is longer than that of any tree');
  return { extra, index, path: lines.map(parseHash), checkpoint };
}

/**
 * Formats a proof file that `parseProof` reads back unchanged.
 * @throws NoteMalformed when that is impossible.
 */
export function formatProof({ extra, index, path, checkpoint }: TlogProof): string {
  const lines = [HEADER];
  if (extra.length > 0) lines.push(EXTRA + encodeBase64(extra));
  lines.push(INDEX + String(index), ...path.map(encodeBase64));
  const file = `${lines.join('\n')}\n\n${checkpoint}`;
  parseProof(file);
  return file;
}
