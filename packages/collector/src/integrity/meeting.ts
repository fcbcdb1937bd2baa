/**
 * Where the leaves of a log and those of its tree, which part here, go together again. Pure.
 *
 * Of all places in sight the nearest is taken, by the leaves that have to be passed over on both sides. One leaf that
 * both have is no proof of a meeting when the two sides pass over different numbers: it may be a leaf that was moved.
 * So the two must go together for a while then, the longer the further they are apart.
 */
import { HASH_BYTES } from './merkle.js';

/** The next leaves of a log, and the next ones of its tree. */
export interface LeafWindow {
  readonly log: Buffer;
  readonly logCount: number;
  /** Whether the log ends behind these. */
  readonly logEnds: boolean;
  readonly tree: Buffer;
  readonly treeCount: number;
  /** Whether the tree ends behind these. */
  readonly treeEnds: boolean;
  /** Where each leaf of the tree stands among these. */
  readonly where: ReadonlyMap<string, number>;
}

/** How many leaves of each side to pass over. */
export interface Meeting {
  readonly log: number;
  readonly tree: number;
}

/** Nobody moves so many leaves in one piece that it looks like the log going on. */
const LONGEST_PROOF = 16;

/** A leaf as text, a character a byte. */
export function leafAt(hashes: Buffer, i: number): string {
  return hashes.toString('latin1', i * HASH_BYTES, (i + 1) * HASH_BYTES);
}

/** How many leaves are alike, of at most `count`, from `i` on in one and from `j` on in the other. */
export function alike(one: Buffer, i: number, other: Buffer, j: number, count: number): number {
  const differ = (from: number, to: number) =>
    one.compare(
      other,
      (j + from) * HASH_BYTES,
      (j + to) * HASH_BYTES,
      (i + from) * HASH_BYTES,
      (i + to) * HASH_BYTES,
    );
  if (differ(0, count) === 0) return count;
  let same = 0;
  while (differ(same, same + 1) === 0) same++;
  return same;
}

/**
 * @param i where to begin in the log, and `j` in the tree; the leaves there differ.
 * @returns undefined when the two do not meet again in sight.
 */
export function meeting(window: LeafWindow, i: number, j: number): Meeting | undefined {
  const { log, logCount, where } = window;
  let nearest: Meeting | undefined;
  let cost = Infinity;
  for (let passed = 0; i + passed < logCount && passed < cost; passed++) {
    const at = where.get(leafAt(log, i + passed)) ?? -1;
    if (at < j || passed + at - j >= cost) continue;
    const met = { log: passed, tree: at - j };
    if (!goTogether(window, i, j, met)) continue;
    nearest = met;
    cost = met.log + met.tree;
  }
  return nearest;
}

function goTogether(window: LeafWindow, i: number, j: number, met: Meeting): boolean {
  if (met.log === met.tree) return true;
  const { log, logCount, logEnds, tree, treeCount, treeEnds } = window;
  const [fromLog, fromTree] = [i + met.log, j + met.tree];
  const wanted = Math.min(LONGEST_PROOF, 2 * Math.abs(met.log - met.tree));
  const inSight = Math.min(logCount - fromLog, treeCount - fromTree);
  const run = alike(log, fromLog, tree, fromTree, Math.min(wanted, inSight));
  if (run === wanted) return true;
  if (run < inSight) return false;
  // One side ends. What was passed over must then not be what the other side still has.
  const [logLeft, treeLeft] = [fromLog + run, fromTree + run];
  if (logLeft === logCount && !logEnds) return true;
  if (treeLeft === treeCount && !treeEnds) return true;
  const passed = new Set([...leavesOf(log, i, fromLog), ...leavesOf(tree, j, fromTree)]);
  const left = [...leavesOf(log, logLeft, logCount), ...leavesOf(tree, treeLeft, treeCount)];
  return !left.some((leaf) => passed.has(leaf));
}

function leavesOf(hashes: Buffer, from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, k) => leafAt(hashes, from + k));
}
