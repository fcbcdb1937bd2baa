/** In words, what signed roots and stored hashes say against a log or against themselves: for `collector verify`. */
import { type HashFault, leavesBelow, type RootVerdict, type Stretch, type Verdict } from '../tree/audit.js';
import { HASH_BYTES, TILE_HASHES } from '../tree/merkle.js';
import { counted } from '../quantity.js';
import { type CheckedRoot, type VerifyFinding, entryRange } from './log-audit.js';

/** When it is not known what of the log is not as it was signed. */
export const DOUBT: VerifyFinding = {
  kind: 'forked',
  message: 'the log is not the one that was signed, and it cannot be told where',
};

/** What is said of the first of several goes for all of them. */
export function withMore(finding: VerifyFinding, { index, count }: Stretch): VerifyFinding {
  if (count === 1) return finding;
  const more = `${entryRange(index + 2, count - 1)} ${count === 2 ? 'is' : 'are'} not as signed either`;
  return { ...finding, message: `${finding.message}; ${more}` };
}

type Roots = readonly RootVerdict<CheckedRoot>[];

/** @param isUnread whether of entries below a size some cannot be read, whose leaves nothing proves. */
export function rootFindings(
  verdict: Verdict<CheckedRoot>,
  isUnread: (size: number) => boolean,
): VerifyFinding[] {
  const { roots } = verdict;
  const findings = contradictions(roots);
  const forked = forkFinding(verdict, isUnread);
  if (forked !== undefined) findings.push(forked);
  const unknown = roots.find(({ log, tree }) => log === 'unknown' && !tree)?.root;
  if (unknown !== undefined) {
    const message =
      `whether the log is the one that ${unknown.source} was signed over, of ${unknown.size} entries, cannot be ` +
      'told: of entries that cannot be read the tree has lost the hashes as well';
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

/** Where the log and what was signed part. */
interface Parting {
  /** The smallest root that the log does not come to. */
  readonly other: CheckedRoot | undefined;
  /** The largest root below that one, of more than no entries, that both histories come to. */
  readonly before: CheckedRoot | undefined;
  /** A root of this log that is as large as the other one: then two histories were signed. */
  readonly later: CheckedRoot | undefined;
}

function agreeing(roots: Roots): CheckedRoot[] {
  return roots.filter(({ root, log }) => log === 'agrees' && root.size > 0).map(({ root }) => root);
}

/** @param others the roots that the log does not come to, by size. */
function parting(roots: Roots, [other]: Roots): Parting {
  const own = agreeing(roots);
  if (other === undefined) return { other, before: own.at(-1), later: undefined };
  const { size, outside } = other.root;
  const later = own.findLast((root) => root.size >= size);
  // Where two histories were signed, what the directory holds is all of the one, and says nothing of the other.
  const ofBoth = (root: CheckedRoot) => later === undefined || !outside || root.outside;
  const before = own.findLast((root) => root.size < size && ofBoth(root));
  return { other: other.root, before, later };
}

/** At the smallest root that comes neither out of the log nor out of the tree, or is of another history. */
function fork(roots: Roots): Parting {
  // Two of one size are a contradiction by themselves.
  const isTold = (size: number) => agreeing(roots).some((root) => root.size === size);
  return parting(
    roots,
    roots.filter(({ root, log, tree }) => log === 'differs' && !tree && !isTold(root.size)),
  );
}

function forkFinding(
  { roots, leaves }: Verdict<CheckedRoot>,
  isUnread: (size: number) => boolean,
): VerifyFinding | undefined {
  const { other, before, later } = fork(roots);
  if (other === undefined) return undefined;
  const { size, source, file } = other;
  const signed = Math.max(...roots.map(({ root }) => root.size));
  const agreesTo = before?.size ?? 0;
  const range = entryRange(agreesTo + 1, size - agreesTo);
  const about = { sequence: agreesTo + 1, file };
  if (later === undefined && isUnread(size)) {
    const message =
      `${source}: its root over ${size} entries does not come out, and with entries that cannot be read no one can ` +
      `tell whether the others are those that were signed; in question: ${range}`;
    return { kind: 'unreadable', ...about, message };
  }
  const none = 'no smaller checkpoint was found that agrees';
  const message =
    later === undefined
      ? `the log is not the one that ${source} was signed over, of ${counted(size, 'entry', 'entries')}: it was rebuilt or ` +
        `forked somewhere in ${range}; ` +
        (before === undefined ? none : `up to entry ${agreesTo} it agrees with ${before.source}`) +
        (leaves < signed ? `; it holds ${leaves}, and ${signed} were signed` : '')
      : `this log and ${source} ` +
        (before === undefined
          ? `part in ${range}; ${none}`
          : `agree up to entry ${agreesTo} (${before.source}) and part in ${range}`) +
        `; both are signed by keys of this log (this log in ${later.source}, of ` +
        `${counted(later.size, 'entry', 'entries')}): it was restored from an old copy, or rebuilt`;
  return { kind: 'forked', ...about, message };
}

/**
 * That the log is shorter than it was signed; undefined when it is not, or when the finding of a fork says so.
 * @param entries how many it holds. @param isUnread as for `rootFindings`.
 */
export function missingFinding(
  { roots, leaves, provenTo }: Verdict<CheckedRoot>,
  covered: number,
  entries: number,
  isUnread: (size: number) => boolean,
): VerifyFinding | undefined {
  if (leaves >= covered) return undefined;
  const forked = fork(roots);
  if (forked.other !== undefined && forked.later === undefined && !isUnread(forked.other.size))
    return undefined;
  const { other, before, later } = parting(
    roots,
    roots.filter(({ log }) => log === 'differs'),
  );
  const agreesTo = before?.size ?? 0;
  const signed = `${roots.at(-1)?.root.source ?? ''} was signed over ${counted(covered, 'entry', 'entries')}`;
  if (other !== undefined && later !== undefined) {
    const sequence = agreesTo + 1;
    const both = other.size > sequence ? `, save those before entry ${other.size} that both have` : '';
    const message =
      `${signed}, and this log, of ${counted(entries, 'entry', 'entries')}, has others in their place: ` +
      `${entryRange(sequence, covered - agreesTo)} of it are missing${both}`;
    return { kind: 'missing', sequence, message };
  }
  const count = covered - leaves;
  const are = count === 1 ? 'is' : 'are';
  const message =
    provenTo === covered
      ? `${entryRange(leaves + 1, count)} ${are} missing from the end of the log, or this is an older copy of it: ${signed}`
      : `${signed}, and the log holds ${entries}: ${counted(count, 'entry', 'entries')} ${are} missing from its end or, if the ` +
        `others were numbered again, from anywhere${agreesTo === 0 ? '' : ` behind entry ${agreesTo}`}; or this is an ` +
        'older copy of it';
  return { kind: 'missing', sequence: leaves + 1, message };
}

/** @param hasTree whether anything of the tree is stored. When nothing is, it was removed, which anybody may do. */
export function tileFindings(
  { hashes, shortages, differing, roots }: Verdict<CheckedRoot>,
  hasTree: boolean,
): VerifyFinding[] {
  const eventsStand = differing.length === 0 && roots.every(({ log }) => log === 'agrees');
  if (!hasTree) {
    if (shortages.length === 0) return [];
    const then = eventsStand
      ? 'the next start rebuilds it'
      : 'with it more could be told of which events are not those that were signed';
    return [{ kind: 'note', file: 'tree', message: `tree/ is not there; ${then}` }];
  }
  const findings: VerifyFinding[] = [
    ...shortages.map(({ level, there }) => ({
      ...({ kind: 'tile_altered', file: `tree/level-${level}`, offset: there * HASH_BYTES } as const),
      message: `tree/level-${level} is cut short: it lacks the hashes from number ${there} on`,
    })),
    ...hashes.map(hashFinding),
  ];
  if (findings.length > 0 && eventsStand) {
    const message =
      'the events are those that were signed, and the hashes in tree/ are derived from them: remove tree/ while no ' +
      'collector runs, and the next start rebuilds it';
    findings.push({ kind: 'note', message });
  }
  return findings;
}

function hashFinding({ level, index, count }: HashFault): VerifyFinding {
  const file = `tree/level-${level}`;
  const sequence = leavesBelow(level, index) + 1;
  const tile = Math.floor(index / TILE_HASHES);
  const which = count === 1 ? `hash ${index}` : `hashes ${index} to ${index + count - 1}`;
  const of = entryRange(sequence, leavesBelow(level, count));
  return {
    ...{ kind: 'tile_altered', sequence, file, offset: index * HASH_BYTES },
    message:
      `${which} of level ${level} (tile ${tile}, in ${file} at byte ${index * HASH_BYTES}) ` +
      `${count === 1 ? 'is' : 'are'} not what ${of} ${of.startsWith('entries') ? 'come' : 'comes'} to: the tree ` +
      'was changed, and not the log',
  };
}
