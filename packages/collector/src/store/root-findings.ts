/** What signed roots and stored hashes show against a log, or against each other: for `collector verify`. */
import { type HashFault, leavesBelow, type RootVerdict, type Verdict } from '../tree/audit.js';
import { HASH_BYTES } from '../tree/merkle.js';
import { entryRange, finding, type VerifyFinding } from './findings.js';
import type { CheckedRoot } from './log-audit.js';

type Roots = readonly RootVerdict<CheckedRoot>[];
/** Whether some entries below a size cannot be read, and nothing proves their leaves. */
type IsUnread = (size: number) => boolean;

export function rootFindings(verdict: Verdict<CheckedRoot>, isUnread: IsUnread): VerifyFinding[] {
  const { roots } = verdict;
  const findings = contradictions(roots);
  const forked = forkFinding(roots, isUnread);
  if (forked !== undefined) findings.push(forked);
  const unknown = roots.find(({ log, tree }) => log === 'unknown' && !tree)?.root;
  if (unknown !== undefined)
    findings.push(finding('root_unknown', { file: unknown.file }, unknown.source, unknown.size));
  return findings;
}

/** Each pair of neighbours of one size; `roots` are by size. */
function contradictions(roots: Roots): VerifyFinding[] {
  return roots.flatMap(({ root: { size, source, file } }, i): VerifyFinding[] => {
    const other = roots[i - 1]?.root;
    if (other?.size !== size) return [];
    return [finding('roots_contradict', { file }, other.source, source, size)];
  });
}

/** Where the log and what was signed differ. */
interface Difference {
  /** The smallest root that the log does not give. */
  readonly other: CheckedRoot;
  /** The largest smaller root, of more than no entries, of both histories. */
  readonly before: CheckedRoot | undefined;
  /** A root of this log that is at least as large as the other one: then two histories were signed. */
  readonly later: CheckedRoot | undefined;
}

function agreeing(roots: Roots): CheckedRoot[] {
  return roots.filter(({ root, log }) => log === 'agrees' && root.size > 0).map(({ root }) => root);
}

/** @param others the roots that the log does not give, by size. */
function differenceAt(roots: Roots, [first]: Roots): Difference | undefined {
  if (first === undefined) return undefined;
  const own = agreeing(roots);
  const { size, outside } = first.root;
  const later = own.findLast((root) => root.size >= size);
  // Where two histories were signed, the roots of the directory are all of the one and say nothing of the other.
  const ofBoth = (root: CheckedRoot) => later === undefined || !outside || root.outside;
  return { other: first.root, before: own.findLast((root) => root.size < size && ofBoth(root)), later };
}

/** At the smallest root that neither the log nor the tree gives, or that is of another history. */
function forkOf(roots: Roots): Difference | undefined {
  // Two roots of one size are a contradiction by themselves.
  const isReported = (size: number) => agreeing(roots).some((root) => root.size === size);
  const others = roots.filter(({ root, log, tree }) => log === 'differs' && !tree && !isReported(root.size));
  return differenceAt(roots, others);
}

function forkFinding(roots: Roots, isUnread: IsUnread): VerifyFinding | undefined {
  const fork = forkOf(roots);
  if (fork === undefined) return undefined;
  const { before, later } = fork;
  const { size, source, file } = fork.other;
  const sequence = (before?.size ?? 0) + 1;
  const place = { sequence, file };
  const range = entryRange(sequence, size - sequence + 1);
  if (later === undefined && isUnread(size)) return finding('root_uncertain', place, source, size, range);
  const agreed =
    before === undefined
      ? 'no smaller checkpoint agrees'
      : `up to entry ${before.size} they agree (${before.source})`;
  return later === undefined
    ? finding('log_rebuilt', place, source, size, range, agreed)
    : finding('log_forked', place, source, later.source, later.size, range, agreed);
}

/**
 * That the log is shorter than it was signed; undefined when it is not, or when the finding of a fork says so.
 * @param held how many entries it holds.
 */
export function missingFinding(
  { roots, leaves, provenTo }: Verdict<CheckedRoot>,
  covered: number,
  held: number,
  isUnread: IsUnread,
): VerifyFinding | undefined {
  const largest = roots.at(-1)?.root;
  if (leaves >= covered || largest === undefined) return undefined;
  const fork = forkOf(roots);
  if (fork !== undefined && fork.later === undefined && !isUnread(fork.other.size)) return undefined;
  const differing = roots.filter(({ log }) => log === 'differs');
  const difference = differenceAt(roots, differing);
  const agreed = (difference?.before ?? agreeing(roots).at(-1))?.size ?? 0;
  if (difference?.later !== undefined) {
    const sequence = agreed + 1;
    return finding('log_replaced', { sequence }, largest.source, covered, held, sequence);
  }
  const sequence = leaves + 1;
  if (provenTo !== covered)
    return finding('entries_missing', { sequence }, largest.source, covered, held, agreed);
  return finding('end_missing', { sequence }, sequence, covered - leaves, largest.source, covered);
}

/** @param hasTree whether any of the tree is stored. When none is, it was removed, which is allowed. */
export function tileFindings(
  { hashes, shortages, differing, roots }: Verdict<CheckedRoot>,
  hasTree: boolean,
): VerifyFinding[] {
  const eventsStand = differing.length === 0 && roots.every(({ log }) => log === 'agrees');
  if (!hasTree) return shortages.length === 0 ? [] : [finding('tree_missing', { file: 'tree' }, eventsStand)];
  const findings = [
    ...shortages.map(({ level, there }) =>
      finding('level_short', { file: `tree/level-${level}`, offset: there * HASH_BYTES }, level, there),
    ),
    ...hashes.map(hashFinding),
  ];
  if (findings.length > 0 && eventsStand) findings.push(finding('tree_derived', {}));
  return findings;
}

function hashFinding({ level, index, count }: HashFault): VerifyFinding {
  const sequence = leavesBelow(level, index) + 1;
  const place = { sequence, file: `tree/level-${level}`, offset: index * HASH_BYTES };
  return finding(
    'hashes_altered',
    place,
    level,
    index,
    count,
    entryRange(sequence, leavesBelow(level, count)),
  );
}
