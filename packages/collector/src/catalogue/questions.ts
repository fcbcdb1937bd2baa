/** Pages of rows for those who go through many records, and what they may ask for. */
import type { SQLInputValue } from 'node:sqlite';
import type { EventKind } from '@clinical-events/protocol';
import { FEEDBACK_WORDS, type FeedbackWord, type OutcomeWord } from '../records/vocabulary.js';
import { uuidBytes } from '../store/text.js';
import { eachTime } from './packed-entries.js';
import {
  LEVELS,
  MARKS,
  type PackedPieces,
  feedbackMark,
  outcomeMark,
  unpackSummary,
} from './packed-summary.js';
import { PackedReader } from './packing.js';
import type { RunSummary } from './run-summary.js';
import type { Row, Texts } from './tables.js';

/* Which runs are asked for, as the statement that finds them. */

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

/** The number of a text; undefined when no row has it. */
type NameId = (text: string) => number | undefined;

/** What a statement asks for. */
class Conditions {
  readonly terms: string[] = [];
  readonly values: SQLInputValue[] = [];

  add(term: string, ...values: SQLInputValue[]): void {
    this.terms.push(term);
    this.values.push(...values);
  }

  /** @returns false when nothing can match. */
  addNames({ organisation, user, application, models }: Partial<RunFilter>, nameId: NameId): boolean {
    for (const [column, text] of Object.entries({ organisation, user, application })) {
      if (text === undefined) continue;
      const id = nameId(text);
      if (id === undefined) return false;
      this.add(`run.${column} = ?`, id);
    }
    if (models === undefined) return true;
    const known = models.flatMap((asked) => modelTerm(asked, nameId) ?? []);
    // The first term is that of the index.
    if (known.length > 1) this.add(`run.model IN (${known.map(({ id }) => id).join(', ')})`);
    this.add(known.length === 1 ? (known[0]?.term ?? '') : `(${known.map(({ term }) => term).join(' OR ')})`);
    return known.length > 0;
  }
}

/** What names are called in the file. */
export interface Names {
  readonly texts: Texts;
  nameId(text: string): number | undefined;
}

/** @returns undefined when nothing can match. */
export function queryOf(filter: RunFilter, names: Names): RunQuery | undefined {
  const asked = new Conditions();
  if (filter.target !== undefined) asked.add('target = ?', names.texts.toBytes(filter.target));
  if (!asked.addNames(filter, (text) => names.nameId(text))) return undefined;
  const began = filter.clock === 'sender' ? 'began_sender' : 'began_received';
  if (filter.since !== undefined) asked.add(`${began} >= ?`, filter.since);
  if (filter.until !== undefined) asked.add(`${began} < ?`, filter.until);
  if (filter.noOutcomeSince !== undefined) {
    asked.add(`marks & ${MARKS.outcome} = ${outcomeMark('none')} AND ${began} < ?`, filter.noOutcomeSince);
  }
  if (filter.afterSequence !== undefined) asked.add('last_sequence > ?', filter.afterSequence);
  if (filter.isRun !== undefined) asked.add('is_run = ?', filter.isRun ? 1 : 0);
  const terms = [...asked.terms, ...markTerms(filter)];
  const where = `${indexFor(filter, began)} ${terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`}`;
  return { where, order: orderOf(filter, began), values: asked.values };
}

/** Both an id and a version may have an @ in them, so that MODEL_ID@VERSION can be meant in several ways. */
export function modelsNamed(text: string): NonNullable<RunFilter['models']> {
  const parts = [...text.matchAll(/@/g)].map(({ index }) => ({
    model: text.slice(0, index),
    version: text.slice(index + 1),
  }));
  return [{ model: text }, ...parts.filter(({ model }) => model !== '')];
}

/** The ids are numbers of our own. */
function modelTerm(
  { model, version }: NonNullable<RunFilter['models']>[number],
  nameId: NameId,
): { readonly id: number; readonly term: string } | undefined {
  const id = nameId(model);
  if (id === undefined) return undefined;
  const term = `run.model = ${id}`;
  if (version === undefined) return { id, term };
  const versionId = nameId(version);
  if (version === '') {
    const empty = versionId === undefined ? '' : ` OR run.version = ${versionId}`;
    return { id, term: `${term} AND (run.version IS NULL${empty})` };
  }
  return versionId === undefined ? undefined : { id, term: `${term} AND run.version = ${versionId}` };
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

/** Which records are wanted. Every condition that is given must hold. Times in milliseconds since 1970. */
export interface RecordSelection {
  /** A run id, or the id that a record without a run is known by; lower case. */
  readonly recordId?: string | undefined;
  readonly organisation?: string | undefined;
  /** MODEL_ID or MODEL_ID@VERSION; an id may have an @ in it as well. */
  readonly model?: string | undefined;
  readonly isIncomplete?: boolean | undefined;
  /** It has an event with a higher sequence. */
  readonly after?: number | undefined;
  /** By `received`: it has an event at this time or later, and before `until`. By `sender`: it began then. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** By which `since` and `until` are meant; `received` when it is not given. */
  readonly clock?: 'received' | 'sender' | undefined;
  /** `log`: by the sequence of the first event. `sender`: by when it began by the sender's clock. */
  readonly order?: 'log' | 'sender' | undefined;
}

export interface RowSource {
  all(sql: string, ...values: SQLInputValue[]): Row[];
  /** The number of a text; undefined when no row has it. */
  nameId(text: string): number | undefined;
}

const PAGE_ROWS = 1024;
/** Fewer that have changed are found by the index of the last sequences; of more, all rows are gone through. */
const FEW_CHANGED = 16_384;

/** What the rows are ordered by, and where SQLite finds them in that order. */
const ORDERS = {
  log: ['run.first_sequence', 'INDEXED BY run_first'],
  sender: ['run.began_sender', 'INDEXED BY run_sender'],
} as const;

interface Terms {
  readonly where: string;
  readonly values: readonly SQLInputValue[];
}

/**
 * The rows of a selection, but for `since` and `until` where they do not concern the beginning of a record: what they
 * ask stands in the entries.
 * @param columns of `run`; `above` is the row that it is nested in.
 * @returns rows of which the first two columns are for the order, and the others those that were asked for.
 */
export function* recordPages(
  source: RowSource,
  columns: string,
  selection: RecordSelection,
): Generator<readonly Row[]> {
  const terms = termsOf(source, selection);
  if (terms === undefined) return;
  const [key, index] = ORDERS[selection.order ?? 'log'];
  const select = `SELECT ${key}, run.id, ${columns} FROM run`;
  const above = columns.includes('above.') ? 'LEFT JOIN run AS above ON above.id = run.parent' : '';
  const one = oneIndex(source, selection);
  if (one !== undefined) {
    const sql = `${select} INDEXED BY ${one} ${above} WHERE ${terms.where} ORDER BY ${key}, run.id`;
    yield source.all(sql, ...terms.values);
    return;
  }
  const paged = (after: string) =>
    `${select} ${index} ${above} WHERE ${after} AND ${terms.where} ORDER BY ${key}, run.id LIMIT ${PAGE_ROWS}`;
  // Senders may give many the same time: by both at a time, SQLite would go through all of these for each page.
  const [same, next] = [paged(`${key} = ? AND run.id > ?`), paged(`${key} > ?`)];
  let [at, id]: [SQLInputValue, SQLInputValue] = [Number.MIN_SAFE_INTEGER, 0];
  for (;;) {
    let page = source.all(same, at, id, ...terms.values);
    if (page.length === 0) page = source.all(next, at, ...terms.values);
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    [at, id] = [last[0] ?? null, last[1] ?? null];
  }
}

/** The index that finds the rows when they are few, so that they are sorted in memory. */
function oneIndex(source: RowSource, { recordId, after }: RecordSelection): string | undefined {
  if (recordId !== undefined) return 'run_record';
  if (after === undefined) return undefined;
  const changed = `SELECT 1 FROM run INDEXED BY run_last WHERE last_sequence > ? LIMIT ${FEW_CHANGED}`;
  const [[count] = []] = source.all(`SELECT count(*) FROM (${changed})`, after);
  return Number(count) < FEW_CHANGED ? 'run_last' : undefined;
}

/** @returns undefined when nothing can match. */
function termsOf(source: RowSource, selection: RecordSelection): Terms | undefined {
  const { recordId, organisation, model, isIncomplete, after, since, until, clock } = selection;
  const asked = new Conditions();
  asked.add('1');
  if (recordId !== undefined) asked.add('run.record = ?', uuidBytes(recordId));
  const models = model === undefined ? undefined : modelsNamed(model);
  if (!asked.addNames({ organisation, models }, (text) => source.nameId(text))) return undefined;
  if (isIncomplete === true) asked.add(`run.marks & ${MARKS.level} = ${LEVELS.indexOf('incomplete')}`);
  if (after !== undefined) asked.add('run.last_sequence > ?', after);
  if (clock === 'sender') {
    if (since !== undefined) asked.add('run.began_sender >= ?', since);
    if (until !== undefined) asked.add('run.began_sender < ?', until);
  } else if (until !== undefined) asked.add('run.began_received < ?', until);
  return { where: asked.terms.join(' AND '), values: asked.values };
}

/*
 * What a report counts of records. SQLite hands over many rows as one, a list of each column and a blob of all that is
 * packed: to be handed each row takes twice as long.
 */

/** What a report counts of a record. */
export interface CountedRecord extends Pick<
  RunSummary,
  'organisation' | 'isRun' | 'began' | 'modelId' | 'modelVersion'
> {
  readonly summary: PackedPieces;
  /** Calls for each of its events; `sentAt` is undefined when the payload cannot be read. */
  eachEvent(visit: (kind: EventKind, receivedAt: number, sentAt: number | undefined) => void): void;
}

export interface CountedRows extends RowSource {
  /** A text by its number. */
  name(id: number): string;
  /** The entries of a row that do not stand in it. */
  parts(row: number): Uint8Array[];
}

/** A row's id is the sequence of an event of it. */
const PAGE_SEQUENCES = 16_384;
const LISTED = [
  'id',
  'organisation',
  'is_run',
  'began_received',
  'began_sender',
  'marks',
  'model',
  'version',
];
const PAGE = `SELECT ${LISTED.map((column) => `json_group_array(run.${column})`).join()},
  json_group_array(length(run.summary) + length(run.entries)),
  CAST(group_concat(run.summary || run.entries, '') AS BLOB)
  FROM run NOT INDEXED WHERE run.id > ? AND run.id <= ?`;
const WITH_PARTS = 'SELECT DISTINCT run FROM part WHERE run > ? AND run <= ?';

/** @returns how far it has come, after each page. */
export function* countedPages(
  rows: CountedRows,
  selection: RecordSelection,
  visit: (record: CountedRecord) => void,
): Generator<number> {
  const terms = termsOf(rows, selection);
  if (terms === undefined) return;
  const last = Number(rows.all('SELECT max(id) FROM run')[0]?.[0]);
  for (let at = 0; at < last; at += PAGE_SEQUENCES) {
    const range = [at, at + PAGE_SEQUENCES];
    const withParts = new Set(rows.all(WITH_PARTS, ...range).map(([row]) => Number(row)));
    const [page = []] = rows.all(`${PAGE} AND ${terms.where}`, ...range, ...terms.values);
    visitPage(rows, page, withParts, visit);
    yield Math.min(at + PAGE_SEQUENCES, last);
  }
}

function visitPage(
  rows: CountedRows,
  page: Row,
  withParts: ReadonlySet<number>,
  visit: (record: CountedRecord) => void,
): void {
  const list = (column: number) => JSON.parse(page[column] as string) as (number | null)[];
  const ids = list(0);
  const [organisations, areRuns, received, senders] = [list(1), list(2), list(3), list(4)];
  const [marks, models, versions, lengths] = [list(5), list(6), list(7), list(8)];
  const packed = page[9] as Uint8Array;
  const name = (id: number | null | undefined) => (typeof id === 'number' ? rows.name(id) : null);
  let end = 0;
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i] ?? 0;
    const reader = new PackedReader(packed, end, end + (lengths[i] ?? 0));
    end += lengths[i] ?? 0;
    const began = { received: received[i] ?? 0, sender: senders[i] ?? 0 };
    visit({
      organisation: rows.name(organisations[i] ?? 0),
      isRun: areRuns[i] === 1,
      began,
      modelId: name(models[i]),
      modelVersion: name(versions[i]),
      summary: unpackSummary(reader, marks[i] ?? 0, began),
      eachEvent(see) {
        if (withParts.has(id)) for (const part of rows.parts(id)) eachTime(new PackedReader(part), see);
        eachTime(reader, see);
      },
    });
  }
}
