/** Which runs are asked for, as the statement that finds them. */
import type { SQLInputValue } from 'node:sqlite';
import { FEEDBACK_WORDS, type FeedbackWord, type OutcomeWord } from '../records/report/closed-words.js';
import { feedbackMark, LEVELS, MARKS, outcomeMark } from './packed-summary.js';
import type { RunSummary } from './run-summary.js';

export type FeedbackAsked = FeedbackWord | 'up' | 'down' | 'any' | 'none';

/** Every condition that is given must hold. Times in milliseconds since 1970. */
export interface RunFilter {
  readonly organisation?: string | undefined;
  readonly target?: string | undefined;
  readonly user?: string | undefined;
  /** Any of these. A version of '' is that of a run whose version is not known. */
  readonly models?: readonly { readonly model: string; readonly version?: string }[] | undefined;
  readonly application?: string | undefined;
  readonly outcome?: OutcomeWord | undefined;
  /** Any of its feedback is of this word; of `up` and `down`, any of its thumbs. It has any, or none. */
  readonly feedback?: FeedbackAsked | undefined;
  readonly level?: RunSummary['level'] | undefined;
  readonly hasConflict?: boolean | undefined;
  /** The call of its model failed, or did not. */
  readonly failed?: boolean | undefined;
  /** It has no outcome, and began before this, by the clock. */
  readonly noOutcomeSince?: number | undefined;
  /** It began then or later, by the clock. */
  readonly since?: number | undefined;
  /** It began before. */
  readonly until?: number | undefined;
  /** By which it began, and by which it is newer or older than another. */
  readonly clock?: 'received' | 'sender' | undefined;
  /** It has an event with a later sequence. */
  readonly afterSequence?: number | undefined;
  /** True for runs alone, false for records without a run alone. */
  readonly isRun?: boolean | undefined;
  /**
   * `newest` and `oldest`: by when they began. `log`: by the sequence of their first event, as exports have them.
   */
  readonly order?: 'newest' | 'oldest' | 'log' | undefined;
  readonly limit?: number | undefined;
}

export interface RunQuery {
  /** Behind FROM run, without the order. */
  readonly where: string;
  readonly order: string;
  readonly values: readonly SQLInputValue[];
}

/** Terms that the indexes of the schema have, letter by letter, so that SQLite takes them. */
const CONTRADICTED = 'marks & 28 = 8';
const CONFLICT = 'marks & 32 <> 0';
const FAILED = 'marks & 64 <> 0';
const INCOMPLETE = 'marks & 3 = 2';
const ANY_FEEDBACK = FEEDBACK_WORDS.reduce((marks, word) => marks | feedbackMark(word), 0);

/** @param nameId the number of a text; undefined when no row has it. @returns undefined when nothing can match. */
export function queryOf(
  filter: RunFilter,
  nameId: (text: string) => number | undefined,
): RunQuery | undefined {
  const terms: string[] = [];
  const values: SQLInputValue[] = [];
  const add = (term: string, ...more: SQLInputValue[]) => {
    terms.push(term);
    values.push(...more);
  };
  for (const column of ['organisation', 'target', 'user', 'application'] as const) {
    const text = filter[column];
    if (text === undefined) continue;
    const id = nameId(text);
    if (id === undefined) return undefined;
    add(`${column} = ?`, id);
  }
  if (filter.models !== undefined) {
    const known = filter.models.flatMap((asked) => modelTerm(asked, nameId) ?? []);
    if (known.length === 0) return undefined;
    // The first term is that of the index.
    const ids = known.map(({ id }) => id);
    if (ids.length > 1) add(`model IN (${ids.join(', ')})`);
    add(known.length === 1 ? (known[0]?.term ?? '') : `(${known.map(({ term }) => term).join(' OR ')})`);
  }
  const began = filter.clock === 'sender' ? 'began_sender' : 'began_received';
  if (filter.since !== undefined) add(`${began} >= ?`, filter.since);
  if (filter.until !== undefined) add(`${began} < ?`, filter.until);
  if (filter.noOutcomeSince !== undefined) {
    add(`marks & ${MARKS.outcome} = ${outcomeMark('none')} AND ${began} < ?`, filter.noOutcomeSince);
  }
  if (filter.afterSequence !== undefined) add('last_sequence > ?', filter.afterSequence);
  if (filter.isRun !== undefined) add('is_run = ?', filter.isRun ? 1 : 0);
  terms.push(...markTerms(filter));
  const where = `${indexFor(filter, began)} ${terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`}`;
  return { where, order: orderOf(filter, began), values };
}

/** The ids are numbers of our own. */
function modelTerm(
  { model, version }: NonNullable<RunFilter['models']>[number],
  nameId: (text: string) => number | undefined,
): { readonly id: number; readonly term: string } | undefined {
  const id = nameId(model);
  if (id === undefined) return undefined;
  if (version === undefined) return { id, term: `model = ${id}` };
  if (version === '') return { id, term: `model = ${id} AND version IS NULL` };
  const versionId = nameId(version);
  return versionId === undefined ? undefined : { id, term: `model = ${id} AND version = ${versionId}` };
}

function markTerms({ outcome, feedback, level, hasConflict, failed }: RunFilter): string[] {
  const terms: string[] = [];
  if (outcome !== undefined) terms.push(`marks & ${MARKS.outcome} = ${outcomeMark(outcome)}`);
  if (feedback === 'none') terms.push(`marks & ${ANY_FEEDBACK} = 0`);
  else if (feedback !== undefined) {
    terms.push(`marks & ${feedback === 'any' ? ANY_FEEDBACK : feedbackMark(feedback)} <> 0`);
  }
  if (level !== undefined) terms.push(`marks & ${MARKS.level} = ${LEVELS.indexOf(level)}`);
  if (hasConflict !== undefined) terms.push(hasConflict ? CONFLICT : 'marks & 32 = 0');
  if (failed !== undefined) terms.push(failed ? FAILED : 'marks & 64 = 0');
  return terms;
}

/** The index that leaves the fewest rows. SQLite knows nothing of how often a value is there, and would guess. */
function indexFor(filter: RunFilter, began: string): string {
  if (filter.target !== undefined) return 'INDEXED BY run_target';
  if (filter.user !== undefined) return 'INDEXED BY run_user';
  if (filter.afterSequence !== undefined) return 'INDEXED BY run_last';
  const terms = markTerms(filter);
  if (terms.includes(CONFLICT)) return 'INDEXED BY run_conflict';
  if (terms.includes(FAILED)) return 'INDEXED BY run_failed';
  if (terms.includes(CONTRADICTED)) return 'INDEXED BY run_contradicted';
  if (filter.models !== undefined) return 'INDEXED BY run_model';
  if (terms.includes(INCOMPLETE)) return 'INDEXED BY run_incomplete';
  if (filter.order === 'log') return 'INDEXED BY run_first';
  if (filter.organisation !== undefined && began === 'began_received') return 'INDEXED BY run_organisation';
  return began === 'began_sender' ? 'INDEXED BY run_sender' : 'INDEXED BY run_received';
}

function orderOf({ order = 'newest', limit }: RunFilter, began: string): string {
  const most = limit === undefined ? '' : ` LIMIT ${Math.max(0, Math.floor(limit))}`;
  if (order === 'log') return `ORDER BY first_sequence${most}`;
  const way = order === 'newest' ? 'DESC' : 'ASC';
  return `ORDER BY ${began} ${way}, id ${way}${most}`;
}
