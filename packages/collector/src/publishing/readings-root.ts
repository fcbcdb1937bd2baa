/** The root over the first lines of the log of readings, read from the log itself: for a sink that holds an older checkpoint. */
import { GrowingTree } from '../integrity/growing-tree.js';
import { LineLeaves } from '../integrity/line-leaves.js';
import type { AccessLogReader } from '../store/access-log-store.js';
import { SinkTrouble } from './sink.js';

/** About a millisecond's work: it is done on the thread that speaks HTTP. */
const PIECE_BYTES = 64 << 10;

/** Rejects with a {@link SinkTrouble} when there are fewer lines, or the log cannot be read. */
export async function readingsRoot(log: AccessLogReader, lines: number): Promise<Buffer> {
  const tree = GrowingTree.at({ hashes: () => Buffer.alloc(0) }, 0);
  const leaves = new LineLeaves(0);
  for (let at = 0; tree.size < lines;) {
    const piece = pieceOf(log, at);
    if (piece.length === 0)
      throw new SinkTrouble(`access.log has fewer than ${lines} lines; see collector verify`);
    at += piece.length;
    for (const { leaf } of leaves.take(piece)) {
      tree.append(leaf, 1);
      if (tree.size === lines) break;
    }
    tree.drain();
    await new Promise(setImmediate);
  }
  return tree.root();
}

function pieceOf(log: AccessLogReader, at: number): Buffer {
  try {
    return log.read(at, PIECE_BYTES);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
    throw new SinkTrouble(`access.log cannot be read${code}`, { cause: error });
  }
}
