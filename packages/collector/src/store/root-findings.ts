/**
 * Findings about signed roots and stored hashes that contradict the log or each other, for `collector
 * verify`.
 */
import { type HashFault, leavesBelow, type RootVerdict, type Verdict } from '../tree/audit.js';
import { HASH_BYTES } from '../tree/merkle.js';
import { entryRange, finding, type VerifyFinding } from './findings.js';
import type { CheckedRoot } from './log-audit.js';

type Roots = readonly RootVerdict<CheckedRoot>[];
/** Whether some entries of a log of this size can neither be read nor proved by their hashes. */
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

/** Reports different roots of one size; `roots` are ordered by size. */
function contradictions(roots: Roots): VerifyFinding[] {
  return roots.flatMap(({ root: { size, source, file } }, i): VerifyFinding[] => {
    const other = roots[i - 1]?.root;
    if (other?.size !== size) return [];
    return [finding('roots_contradict', { file }, other.source, source, size)];
  });
}

/** A difference between the log and the signed roots. */
interface Difference {
  /** The smallest root that the log does not give. */
  readonly other: CheckedRoot;
  /** The largest smaller root in both histories, of at least one entry. */
  readonly before: CheckedRoot | undefined;
  /** A root of this log of at least the same size: then two histories were signed. */
  readonly later: CheckedRoot | undefined;
}

function agreeing(roots: Roots): CheckedRoot[] {
  return roots.filter(({ root, log }) => log === 'agrees' && root.size > 0).map(({ root }) => root);
}

/** @param others the roots that the log does not give, ordered by size. */
function differenceAt(roots: Roots, [first]: Roots): Difference | undefined {
  if (first === undefined) return undefined;
  const own = agreeing(roots);
  const { size, outside } = first.root;
  const later = own.findLast((root) => root.size >= size);
  // If two histories were signed, the roots in the data directory all belong to this one.
  const ofBoth = (root: CheckedRoot) => later === undefined || !outside || root.outside;
  return { other: first.root, before: own.findLast((root) => root.size < size && ofBoth(root)), later };
}

/** The difference at the smallest root that neither the log nor the tree gives. */
function forkOf(roots: Roots): Difference | undefined {
  // Two roots of one size are reported as a contradiction.
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
 * The finding for a log that is shorter than the signed one; undefined if it is not, or if a fork is reported
 * instead.
 * @param held number of entries in the log.
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

/** @param hasTree whether a tree is stored; it may be removed. */
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
