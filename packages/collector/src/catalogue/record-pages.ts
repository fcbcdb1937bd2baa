/** Pages of rows for those who go through many records, and what they may ask for. */
import type { SQLInputValue } from 'node:sqlite';
import { LEVELS, MARKS } from './packed-summary.js';
import type { Row } from './tables.js';
import { uuidBytes } from '../store/uuid-text.js';

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
 * The rows of a selection, but for `since` and `until` as far as these are not about when a record began: what they ask
 * stands in the entries.
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
export function termsOf(source: RowSource, selection: RecordSelection): Terms | undefined {
  const { recordId, organisation, model, isIncomplete, after, since, until, clock } = selection;
  const terms = ['1'];
  const values: SQLInputValue[] = [];
  const add = (term: string, ...more: SQLInputValue[]) => {
    terms.push(term);
    values.push(...more);
  };
  if (recordId !== undefined) add('run.record = ?', uuidBytes(recordId));
  if (organisation !== undefined) {
    const id = source.nameId(organisation);
    if (id === undefined) return undefined;
    add('run.organisation = ?', id);
  }
  if (model !== undefined) {
    const { where, values: ids } = modelTerms(source, model);
    if (where === '') return undefined;
    add(`(${where})`, ...ids);
  }
  if (isIncomplete === true) add(`run.marks & ${MARKS.level} = ${LEVELS.indexOf('incomplete')}`);
  if (after !== undefined) add('run.last_sequence > ?', after);
  if (clock === 'sender') {
    if (since !== undefined) add('run.began_sender >= ?', since);
    if (until !== undefined) add('run.began_sender < ?', until);
  } else if (until !== undefined) add('run.began_received < ?', until);
  return { where: terms.join(' AND '), values };
}

function modelTerms(source: RowSource, model: string): Terms {
  const terms: string[] = [];
  const values: SQLInputValue[] = [];
  const whole = source.nameId(model);
  if (whole !== undefined) {
    terms.push('run.model = ?');
    values.push(whole);
  }
  for (let at = model.indexOf('@'); at >= 0; at = model.indexOf('@', at + 1)) {
    const id = source.nameId(model.slice(0, at));
    const text = model.slice(at + 1);
    const version = source.nameId(text);
    if (id === undefined || (text !== '' && version === undefined)) continue;
    terms.push(
      `run.model = ? AND ${text === '' ? '(run.version IS NULL OR run.version = ?)' : 'run.version = ?'}`,
    );
    values.push(id, version ?? null);
  }
  return { where: terms.join(' OR '), values };
}
