/** In words, what signed roots and stored hashes say against a log or against themselves: for `collector verify`. */
import type { RootVerdict, Verdict } from '../../integrity/audit.js';
import { HASH_BYTES, TILE_HASHES } from '../../integrity/merkle.js';
import { leavesBelow, type HashFault } from '../../integrity/rooted-tree.js';
import { counted } from '../../quantity.js';
import { eventRange, type CheckedRoot, type VerifyFinding } from '../log-audit.js';

type Roots = readonly RootVerdict<CheckedRoot>[];

export function rootFindings({ roots, gaps }: Verdict<CheckedRoot>): VerifyFinding[] {
  const findings = contradictions(roots);
  const fork = forkFinding(roots, (size) => gaps.some(({ proven, index }) => !proven && index < size));
  if (fork !== undefined) findings.push(fork);
  const unknown = roots.find(({ log, tree }) => log === 'unknown' && !tree)?.root;
  if (unknown !== undefined) {
    const message =
      `whether the log is the one that ${unknown.source} was signed over, of ${unknown.size} entries, cannot be ` +
      'told: of events that cannot be read the tree has lost the hashes as well';
    findings.push({ kind: 'unreadable', file: unknown.file, message });
  }
  return findings;
}

/** Each pair of neighbours; `roots` are by size. */
function contradictions(roots: Roots): VerifyFinding[] {
  return roots.flatMap(({ root }, i): VerifyFinding[] => {
    const other = roots[i - 1]?.root;
    if (other?.size !== root.size) return [];
    const message =
      `${other.source} and ${root.source} are both signed by a key of this log, over ${root.size} entries each, and ` +
      'have different roots: proof that the log was forked';
    return [{ kind: 'forked', file: root.file, message }];
  });
}

/**
 * For the smallest root that comes neither out of the log nor out of the tree, or is of another history than one that
 * the log agrees with: then two were signed, and it does not matter that somebody has kept the leaves of the other.
 */
function forkFinding(roots: Roots, hasGap: (size: number) => boolean): VerifyFinding | undefined {
  // The root of no events says nothing.
  const agrees = roots.filter(({ root, log }) => log === 'agrees' && root.size > 0);
  // Two of one size are a contradiction by themselves.
  const isTold = (size: number) => roots.some(({ root, log }) => root.size === size && log === 'agrees');
  const contradicts = ({ root: { size }, log, tree }: RootVerdict<CheckedRoot>) =>
    agrees.findLast(
      (other) =>
        (log === 'differs' && other.root.size > size) || (tree && !other.tree && other.root.size < size),
    )?.root;
  const judged = roots.find(
    (verdict) =>
      verdict.log !== 'agrees' &&
      !isTold(verdict.root.size) &&
      ((verdict.log === 'differs' && !verdict.tree) || contradicts(verdict) !== undefined),
  );
  if (judged === undefined) return undefined;
  const { source, file, outside } = judged.root;
  const later = contradicts(judged);
  const size = Math.min(judged.root.size, later?.size ?? Infinity);
  // Where two histories were signed, what the directory holds is all of the one, and says nothing of the other.
  const before = agrees.findLast(
    ({ root, tree }) =>
      root.size < size && (later === undefined || (judged.tree ? tree : !outside || root.outside)),
  )?.root;
  const agreesTo = before?.size ?? 0;
  const range = eventRange(agreesTo + 1, size - agreesTo);
  if (later === undefined && hasGap(size)) {
    const message =
      `${source}: its root over ${size} entries does not come out, and with events that cannot be read nobody can ` +
      `tell whether the others are those that were signed; in question: ${range}`;
    return { kind: 'unreadable', sequence: agreesTo + 1, file, message };
  }
  const none = 'no smaller checkpoint was found that agrees';
  const rebuilt =
    `the log is not the one that ${source} was signed over, of ${counted(size, 'entry', 'entries')}: it was rebuilt or forked ` +
    `somewhere in ${range}; ` +
    (before === undefined ? none : `up to event ${agreesTo} it agrees with ${before.source}`);
  const parted =
    before === undefined
      ? `this log and ${source} part in ${range}; ${none}`
      : `this log and ${source} agree up to event ${agreesTo} (${before.source}) and part in ${range}`;
  const message =
    later === undefined
      ? rebuilt
      : `${parted}; both are signed by keys of this log (this log in ${later.source}, of ${counted(later.size, 'entry', 'entries')}): it was ` +
        'restored from an old copy, or rebuilt';
  return { kind: 'forked', sequence: agreesTo + 1, file, message };
}

/**
 * Neighbours in a level are told together.
 * @param hasTree whether anything of the tree is stored. When nothing is, it was removed, which anybody may do.
 */
export function tileFindings(
  { hashes, shortages, events, roots }: Verdict<CheckedRoot>,
  hasTree: boolean,
): VerifyFinding[] {
  const eventsStand = events.length === 0 && roots.every(({ log }) => log === 'agrees');
  if (!hasTree) {
    if (shortages.length === 0) return [];
    const then = eventsStand
      ? 'the next start makes it anew'
      : 'with it more could be told of which events are not those that were signed';
    return [{ kind: 'note', file: 'tree', message: `tree/ is not there; ${then}` }];
  }
  const findings: VerifyFinding[] = shortages.map(({ level, there }) => ({
    ...{ kind: 'tile_altered', file: `tree/level-${level}`, offset: there * HASH_BYTES },
    message: `tree/level-${level} is cut short: it lacks the hashes from number ${there} on`,
  }));
  const sorted = hashes.toSorted((a, b) => a.level - b.level || a.index - b.index);
  let run: HashFault[] = [];
  for (const [i, fault] of sorted.entries()) {
    run.push(fault);
    const next = sorted[i + 1];
    if (next?.level === fault.level && next.index === fault.index + 1) continue;
    findings.push(hashFinding(run));
    run = [];
  }
  if (findings.length > 0 && eventsStand) {
    const message =
      'the events are those that were signed, and the hashes in tree/ are derived from them: remove tree/ while no ' +
      'collector runs, and the next start makes it anew';
    findings.push({ kind: 'note', message });
  }
  return findings;
}

function hashFinding(run: readonly HashFault[]): VerifyFinding {
  const { level = 0, index = 0 } = run[0] ?? {};
  const file = `tree/level-${level}`;
  const sequence = leavesBelow(level, index) + 1;
  const tile = Math.floor(index / TILE_HASHES);
  const which = run.length === 1 ? `hash ${index}` : `hashes ${index} to ${index + run.length - 1}`;
  const of = eventRange(sequence, leavesBelow(level, run.length));
  return {
    ...{ kind: 'tile_altered', sequence, file, offset: index * HASH_BYTES },
    message:
      `${which} of level ${level} (tile ${tile}, in ${file} at byte ${index * HASH_BYTES}) ` +
      `${run.length === 1 ? 'is' : 'are'} not what ${of} ${of.startsWith('events') ? 'come' : 'comes'} to: the tree ` +
      'was changed, and not the log',
  };
}
