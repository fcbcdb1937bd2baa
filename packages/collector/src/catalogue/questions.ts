/** The questions that the catalogue answers, as SQL. */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import type { CountedRun } from '../records/counted-run.js';
import { FEEDBACK_WORDS, type FeedbackWord, OUTCOME_WORDS, type OutcomeWord } from '../records/vocabulary.js';
import type { Place } from '../store/contract/events.js';
import { uuidBytes } from '../store/text.js';
import {
  beganIn,
  CALL_COLUMNS,
  callIn,
  countedIn,
  RARE,
  UNCOUNTED,
  type Value,
  LEVELS,
  NAME_COLUMNS,
  SUMMARY_COLUMNS,
  wordAt,
} from './columns.js';
import type { RunSummary } from './run-summary.js';
import type { Names } from './names.js';
import { IS } from './schema.js';
import type { Row, Statements } from './statements.js';

export type FeedbackAsked = FeedbackWord | 'up' | 'down' | 'any' | 'none';

/** Filters of runs; all of them must hold. Times are in milliseconds since 1970. */
export interface RunFilter {
  /** A run id, or the id of a record without a run; lower case. */
  readonly recordId?: string | undefined;
  readonly organisation?: string | undefined;
  /** Runs of any of these organisations; an empty list matches no run. `applications` likewise. */
  readonly organisations?: readonly string[] | undefined;
  /** The target of any call. `user` and `models` also match any call. */
  readonly target?: string | undefined;
  readonly user?: string | undefined;
  /** Runs with a call by this user, and with no call by another. */
  readonly onlyUser?: string | undefined;
  /** Runs with any of these models. Version '' matches a run whose version is unknown. */
  readonly models?: readonly { readonly model: string; readonly version?: string }[] | undefined;
  readonly application?: string | undefined;
  readonly applications?: readonly string[] | undefined;
  readonly outcome?: OutcomeWord | undefined;
  /**
   * Any feedback with this word; `up` and `down` match thumbs, `any` and `none` the existence of feedback.
   */
  readonly feedback?: FeedbackAsked | undefined;
  readonly level?: RunSummary['level'] | undefined;
  readonly hasConflict?: boolean | undefined;
  /** Whether the model call failed. */
  readonly failed?: boolean | undefined;
  /** Runs without an outcome that began before this time, by `clock`. */
  readonly noOutcomeSince?: number | undefined;
  /** Runs that began at this time or later, by `clock`. */
  readonly since?: number | undefined;
  /** Runs that began before this time. */
  readonly until?: number | undefined;
  /** Runs with an event that the collector received at this time or later, and before `until` if given. */
  readonly eventsSince?: number | undefined;
  /** The clock for start times and for the order. */
  readonly clock?: 'received' | 'sender' | undefined;
  /** Runs with an event after this sequence. */
  readonly afterSequence?: number | undefined;
  /** True: only runs; false: only records without a run. */
  readonly isRun?: boolean | undefined;
  /**
   * `newest` and `oldest`: by start time on `clock`. `log` and `sender` are the orders of exports: by the
   * sequence of the first event, or by the start time on the sender's clock.
   */
  readonly order?: 'newest' | 'oldest' | 'log' | 'sender' | undefined;
  readonly limit?: number | undefined;
}

export interface RunQuery {
  /** The statement that selects columns of `run`; the column of the order follows them. */
  select(columns: string): string;
  /** The same without order and limit, for aggregation. */
  all(columns: string): string;
  /** The statement that counts the matches, at most the limit. */
  readonly count: string;
  readonly values: readonly Value[];
}

/** The number of a name; undefined if no row has it. */
type NameId = (text: string) => number | undefined;

/** A name that a call of the run must have. The numbers come from the table of names. */
interface CallTerm {
  readonly column: 'target' | 'user' | 'model';
  readonly ids: readonly number[];
  /** The condition on a row of `run` for its first call, or on a row of `call`. */
  readonly termOf: (table: 'run' | 'call') => string;
}

/** The condition for reading the table of calls: most runs have only one call. */
const CALLS = 'run.starts > 1';

/** With more organisations, the newest runs are those of one of them soon enough. SQLite merges up to 500. */
const MOST_PARTS = 100;

function otherUserThan(id: number): string {
  return `EXISTS (SELECT 1 FROM call WHERE call.run = run.id AND call.user <> ${id})`;
}

/** The conditions of a statement. */
class Conditions {
  readonly terms: string[] = [];
  readonly values: Value[] = [];
  readonly #called: CallTerm[] = [];
  /** The numbers of the organisations, if several were asked for. */
  #organisations: readonly number[] | undefined;

  add(term: string, ...values: Value[]): void {
    this.terms.push(term);
    this.values.push(...values);
  }

  /** @returns false if nothing can match. */
  addNames(filter: Partial<RunFilter>, nameId: NameId): boolean {
    const { organisation, target, user, onlyUser, application, models } = filter;
    if (!this.#addLists(filter, nameId)) return false;
    for (const [column, text] of Object.entries({ organisation, application })) {
      if (text === undefined) continue;
      const id = nameId(text);
      if (id === undefined) return false;
      this.add(`run.${column} = ?`, id);
    }
    for (const [column, text] of [
      ['target', target],
      ['user', user],
      ['user', onlyUser],
    ] as const) {
      if (text === undefined) continue;
      const id = nameId(text);
      if (id === undefined) return false;
      this.#called.push({ column, ids: [id], termOf: (table) => `${table}.${column} = ${id}` });
      if (text === onlyUser) this.add(`NOT (${CALLS} AND ${otherUserThan(id)})`);
    }
    if (models === undefined) return true;
    const known = models.flatMap((asked) => modelTerm(asked, nameId) ?? []);
    this.#called.push({
      ...{ column: 'model', ids: known.map(({ id }) => id) },
      termOf: (table) => `(${known.map(({ termOf }) => termOf(table)).join(' OR ')})`,
    });
    return known.length > 0;
  }

  /** @returns false if nothing can match. */
  #addLists({ organisations, applications }: Partial<RunFilter>, nameId: NameId): boolean {
    for (const [column, texts] of Object.entries({
      organisation: organisations,
      application: applications,
    })) {
      if (texts === undefined) continue;
      const ids = [...new Set(texts.flatMap((text) => nameId(text) ?? []))];
      if (ids.length === 0) return false;
      this.add(`run.${column} IN (${ids.join(', ')})`);
      if (column === 'organisation') this.#organisations = ids;
    }
    return true;
  }

  /**
   * The same in a part for each organisation, which SQLite merges by time; undefined if there are too many
   * for that, or none were asked for.
   */
  get byOrganisation(): readonly string[] | undefined {
    const ids = this.#organisations;
    if (ids === undefined || ids.length > MOST_PARTS) return undefined;
    return ids.map((id) => this.#where([`run.organisation = ${id}`, ...this.#called.map(ofAny)]));
  }

  /** Selects runs with a call for each of the requested names. */
  get where(): string {
    return this.#where(this.#called.map(ofAny));
  }

  /** The same in two parts, each with an index: runs whose first call has the name, and other runs. */
  byFirst(column: string): readonly [first: string, others: string] | undefined {
    const by = this.#called.find((each) => each.column === column);
    if (by === undefined) return undefined;
    const rest = this.#called.filter((each) => each !== by).map(ofAny);
    const ids = by.ids.join(', ');
    const first = by.termOf('run');
    const called = `run.id IN (SELECT run FROM call INDEXED BY call_${column} WHERE ${column} IN (${ids}))`;
    return [
      this.#where([`run.${column} IN (${ids})`, first, ...rest]),
      this.#where([called, ofCall(by), `(${first}) IS NOT TRUE`, ...rest]),
    ];
  }

  #where(more: readonly string[]): string {
    const terms = [...this.terms, ...more];
    return terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`;
  }
}

function ofCall({ termOf }: CallTerm): string {
  return `EXISTS (SELECT 1 FROM call WHERE call.run = run.id AND ${termOf('call')})`;
}

function ofAny(term: CallTerm): string {
  return `(${term.termOf('run')} OR ${CALLS} AND ${ofCall(term)})`;
}

/** @returns undefined if nothing can match. */
function conditionsOf(filter: RunFilter, nameId: NameId): Conditions | undefined {
  const asked = new Conditions();
  if (!asked.addNames(filter, nameId)) return undefined;
  const { recordId, since, until, noOutcomeSince, afterSequence, eventsSince, isRun } = filter;
  const began = beganBy(filter);
  if (recordId !== undefined) asked.add('record = ?', uuidBytes(recordId));
  if (since !== undefined) asked.add(`${began} >= ?`, since);
  if (until !== undefined) asked.add(`${began} < ?`, until);
  if (noOutcomeSince !== undefined)
    asked.add(`outcome = ${OUTCOME_WORDS.indexOf('none')} AND ${began} < ?`, noOutcomeSince);
  if (afterSequence !== undefined) asked.add('last_sequence > ?', afterSequence);
  if (eventsSince !== undefined) {
    const within = 'event.run = run.id AND received >= ? AND received < ?';
    asked.add(`EXISTS (SELECT 1 FROM event WHERE ${within})`, eventsSince, until ?? Infinity);
  }
  if (isRun !== undefined) asked.add('is_run = ?', isRun ? 1 : 0);
  for (const term of markTerms(filter)) asked.add(term);
  return asked;
}

function beganBy({ clock }: RunFilter): string {
  return clock === 'sender' ? 'began_sender' : 'began_received';
}

/**
 * Indexes by time. Without a condition on time they only give the order, and reading all rows by them costs
 * twice as much as by the table.
 */
const BY_TIME: readonly string[] = ['received', 'sender'];

/** @returns undefined if nothing can match. */
export function queryOf(filter: RunFilter, nameId: NameId): RunQuery | undefined {
  const asked = conditionsOf(filter, nameId);
  if (asked === undefined) return undefined;
  const { values } = asked;
  const index = indexFor(filter);
  const { by, way } = orderOf(filter);
  const most = filter.limit === undefined ? '' : ` LIMIT ${Math.max(0, Math.floor(filter.limit))}`;
  const parts = partsOf(asked, index);
  const union = (of: readonly string[], columns: string) =>
    of.map((part) => `SELECT ${columns} FROM run ${part}`).join(' UNION ALL ');
  const { since, until, noOutcomeSince } = filter;
  const isOrderAlone = BY_TIME.includes(index) && (since ?? until ?? noOutcomeSince) === undefined;
  // Without a condition, SQLite chooses an index that has all columns.
  const whole = asked.where === '' ? '' : `NOT INDEXED ${asked.where}`;
  return {
    all: (columns) => union(isOrderAlone ? [whole] : parts, columns),
    select: (columns) =>
      `${union(parts, `${columns}, ${by} AS ordered, id AS row`)} ORDER BY ordered ${way}, row ${way}${most}`,
    count: `SELECT count(*) FROM (${union(parts, '1')}${most})`,
    values: parts.flatMap(() => values),
  };
}

/** The parts of a question, each with its index. */
function partsOf(asked: Conditions, index: string): readonly string[] {
  const byFirst = asked.byFirst(index);
  if (byFirst !== undefined) return [`INDEXED BY run_${index} ${byFirst[0]}`, `NOT INDEXED ${byFirst[1]}`];
  const each = index === 'organisation' ? asked.byOrganisation : undefined;
  return (each ?? [asked.where]).map((where) => `INDEXED BY run_${index} ${where}`);
}

/** Both id and version may contain an @, so MODEL_ID@VERSION can have several meanings. */
export function modelsNamed(text: string): NonNullable<RunFilter['models']> {
  const parts = [...text.matchAll(/@/g)].map(({ index }) => ({
    model: text.slice(0, index),
    version: text.slice(index + 1),
  }));
  return [{ model: text }, ...parts.filter(({ model }) => model !== '')];
}

function modelTerm(
  { model, version }: NonNullable<RunFilter['models']>[number],
  nameId: NameId,
): (Pick<CallTerm, 'termOf'> & { readonly id: number }) | undefined {
  const id = nameId(model);
  if (id === undefined) return undefined;
  if (version === undefined) return { id, termOf: (table) => `${table}.model = ${id}` };
  const versionId = nameId(version);
  if (version !== '' && versionId === undefined) return undefined;
  const versions = (column: string) => [
    ...(version === '' ? [`${column} IS NULL`] : []),
    ...(versionId === undefined ? [] : [`${column} = ${versionId}`]),
  ];
  return {
    id,
    termOf: (table) => `${table}.model = ${id} AND (${versions(`${table}.version`).join(' OR ')})`,
  };
}

function markTerms({ outcome, feedback, level, hasConflict, failed }: RunFilter): string[] {
  const terms: string[] = [];
  if (outcome !== undefined) terms.push(`outcome = ${OUTCOME_WORDS.indexOf(outcome)}`);
  if (feedback !== undefined) terms.push(feedbackTerm(feedback));
  if (level !== undefined) terms.push(`level = ${LEVELS.indexOf(level)}`);
  if (hasConflict !== undefined) terms.push(hasConflict ? IS.conflict : `NOT (${IS.conflict})`);
  if (failed !== undefined) terms.push(failed ? IS.failed : `(${IS.failed}) IS NOT TRUE`);
  return terms;
}

function feedbackTerm(asked: FeedbackAsked): string {
  if (asked === 'none' || asked === 'any') return asked === 'none' ? 'feedbacks = 0' : 'feedbacks > 0';
  return FEEDBACK_WORDS.some((word) => word === asked) ? `said_${asked} > 0` : `thumbs_${asked} > 0`;
}

/** The index that leaves the fewest rows. SQLite does not know the frequency of values and would guess. */
function indexFor(filter: RunFilter): string {
  const { order, organisation, organisations, clock } = filter;
  const terms = markTerms(filter);
  const isOfFew = organisations !== undefined && organisations.length <= MOST_PARTS;
  const indexes: readonly (readonly [index: string, isFit: boolean])[] = [
    ['record', filter.recordId !== undefined],
    ['target', filter.target !== undefined],
    ['user', (filter.user ?? filter.onlyUser) !== undefined],
    ['last', filter.afterSequence !== undefined],
    ['conflict', terms.includes(IS.conflict)],
    ['failed', terms.includes(IS.failed)],
    ['contradicted', terms.includes(IS.contradicted)],
    // An export of a model reads all records in order, which costs less than sorting the matches.
    ['first', order === 'log'],
    ['sender', order === 'sender'],
    ['model', filter.models !== undefined],
    ['incomplete', terms.includes(IS.incomplete)],
    ['organisation', (organisation !== undefined || isOfFew) && clock !== 'sender'],
    ['sender', clock === 'sender'],
  ];
  return indexes.find(([, isFit]) => isFit)?.[0] ?? 'received';
}

function orderOf(filter: RunFilter): { readonly by: string; readonly way: 'ASC' | 'DESC' } {
  const { order = 'newest' } = filter;
  if (order === 'log') return { by: 'first_sequence', way: 'ASC' };
  if (order === 'sender') return { by: 'began_sender', way: 'ASC' };
  return { by: beganBy(filter), way: order === 'newest' ? 'DESC' : 'ASC' };
}

/** An event of a record. Times are in milliseconds since 1970. */
export interface EventEntry extends Place {
  readonly kind: EventKind;
  readonly sequence: number;
  readonly receivedAt: number;
  /** The time by the sender's clock; undefined if the payload is unreadable. */
  readonly sentAt: number | undefined;
}

/** A record and the places of its events. */
export interface CatalogueRun extends RunSummary {
  /** Its row, which stays the same until the record is merged with another. */
  readonly row: number;
  /** Its events in the order of the log. */
  events(): EventEntry[];
}

/** A record for an export: the places of its events, and its links to other records. */
export interface PlacedRecord {
  readonly row: number;
  readonly firstSequence: number;
  /** The run of the parent event, or null if that has no run; undefined without a parent. */
  readonly parent: string | null | undefined;
  readonly hasChildren: boolean;
  readonly isInCircle: boolean;
  /** Places of its events, in the order of the log. */
  places(): Place[];
}

/** The record of an event: its id, its run, or null without one, and the row. */
export interface EventRecord {
  readonly recordId: string;
  readonly runId: string | null;
  readonly row: number;
}

/** A connection with its statements and names. */
export interface Source {
  readonly statements: Statements;
  readonly names: Names;
}

/*
 * Counts for a report. SQLite returns many rows as one row with a list for each column: single rows take
 * twice as long.
 */

const OWN = ['id', 'organisation', 'is_run', 'model', 'version'] as const;
const COUNTED = SUMMARY_COLUMNS.map(({ name }) => name).filter(
  (name) => ![...NAME_COLUMNS, ...RARE, ...UNCOUNTED].includes(name),
);
/** Maps the position of a summary column to its position in a page, and among the rare columns. */
const IN_PAGE = SUMMARY_COLUMNS.map(({ name }) =>
  COUNTED.includes(name) ? OWN.length + COUNTED.indexOf(name) : -1,
);
const IN_RARE = SUMMARY_COLUMNS.map(({ name }) => 1 + RARE.indexOf(name));
const listOf = (column: string) => `json_group_array(${column})`;
/** Range of row ids in a page. The id of a row is the sequence of one of its events. */
const PAGE_SEQUENCES = 16_384;
const OF_PAGE = 'FROM (SELECT * FROM run NOT INDEXED WHERE id > ? AND id <= ?) AS run';
const PAGE = `SELECT ${[...OWN, ...COUNTED].map(listOf).join()} ${OF_PAGE}`;
const RARE_OF_PAGE = `SELECT id, ${RARE.join()} ${OF_PAGE} WHERE feedbacks > 0 OR ending IS NOT NULL`;
const CALLS_OF_PAGE = `SELECT ${['run', ...CALL_COLUMNS.map(({ name }) => name)].join()} FROM call
  WHERE run > ? AND run <= ? ORDER BY run, number`;
const TIMES = `SELECT ${['run', 'kind', 'received', 'sent'].map(listOf).join()}
  FROM event WHERE run > ? AND run <= ?`;

/** The statements that read pages, for any connection. */
export interface PageQuery {
  readonly where: string;
  readonly values: readonly Value[];
}

/** The range of ids of a page: after the first, up to the second. */
export type PageRange = readonly [number, number];

/** For the rows of a page, a JSON list of each column; the rare columns of rows that have any; and calls. */
export interface PageRows {
  readonly lists: Row | undefined;
  readonly rare: readonly Row[];
  readonly calls: readonly Row[];
}

/** Reads pages in order; returns null for a page that it cannot read. */
export type ReadPage = (range: PageRange) => Promise<PageRows | null>;

export function pageOf(statements: Statements, { where, values }: PageQuery, range: PageRange): PageRows {
  return {
    lists: statements.first(`${PAGE} ${where}`, ...range, ...values),
    rare: statements.all(RARE_OF_PAGE, ...range),
    calls: statements.all(CALLS_OF_PAGE, ...range),
  };
}

/** Number of pages that are read ahead. */
const PAGES_AHEAD = 2;

/**
 * Calls `visit` for each record. @returns after each page, the sequence that it has reached.
 * @param startReading starts a reader of pages in another thread; pages that it cannot read are read here.
 */
export async function* countedPages(
  source: Source,
  filter: RunFilter,
  visit: (record: CountedRun) => void,
  startReading: ((query: PageQuery) => ReadPage) | undefined,
): AsyncGenerator<number> {
  const { statements, names } = source;
  const asked = conditionsOf(filter, (text) => names.known(text));
  if (asked === undefined) return;
  const query: PageQuery = { where: asked.where, values: asked.values };
  const readPage = startReading?.(query);
  const last = Number(statements.first('SELECT max(id) FROM run')?.[0]);
  const ahead: { readonly range: PageRange; readonly rows: Promise<PageRows | null> | undefined }[] = [];
  for (let at = 0; at < last || ahead.length > 0;) {
    for (; at < last && ahead.length <= PAGES_AHEAD; at += PAGE_SEQUENCES) {
      const range = [at, at + PAGE_SEQUENCES] as const;
      ahead.push({ range, rows: readPage?.(range) });
    }
    const next = ahead.shift();
    if (next === undefined) return;
    const { range } = next;
    const rows = (await next.rows) ?? pageOf(statements, query, range);
    const rare = new Map(rows.rare.map((row) => [Number(row[0]), row]));
    const calls = Map.groupBy(rows.calls, ([run]) => Number(run));
    const times = new EventTimes(() => listsIn(statements.first(TIMES, ...range)));
    visitPage(source, { page: listsIn(rows.lists), rare, calls, times }, visit);
    yield Math.min(range[1], last);
  }
}

type Lists = readonly (readonly (number | string | null)[])[];

interface Page {
  readonly page: Lists;
  /** Rare values by row id. */
  readonly rare: ReadonlyMap<number, Row>;
  readonly calls: ReadonlyMap<number, readonly Row[]>;
  readonly times: EventTimes;
}

function listsIn(row: Row | undefined): Lists {
  return (row ?? []).map((list) => JSON.parse(list as string) as (number | null)[]);
}

function visitPage(
  { names }: Pick<Source, 'names'>,
  { page, rare, calls, times }: Page,
  visit: (record: CountedRun) => void,
): void {
  const [ids = [], organisations = [], areRuns = [], models = [], versions = []] = page;
  const nameOf = (id: number | string | null | undefined) =>
    typeof id === 'number' ? names.nameOf(id) : null;
  for (const [i, id] of ids.entries()) {
    const cells = (place: number) => {
      const [column, rareColumn] = [IN_PAGE[place], IN_RARE[place]];
      if (column === undefined || rareColumn === undefined) throw new RangeError('no such column');
      return column >= 0 ? page[column]?.[i] : rare.get(Number(id))?.[rareColumn];
    };
    visit({
      organisation: names.nameOf(Number(organisations[i])),
      isRun: areRuns[i] === 1,
      began: beganIn(cells),
      modelId: nameOf(models[i]),
      modelVersion: nameOf(versions[i]),
      summary: countedIn(cells),
      calls: calls.get(Number(id))?.map((row) => callIn(row.slice(1), names)) ?? [],
      eachEvent: (see) => times.each(Number(id), see),
    });
  }
}

/** Times of the events of a page, read on demand. */
class EventTimes {
  #lists: Lists | undefined;
  #at = 0;

  constructor(private readonly read: () => Lists) {}

  /** Times for the records in order. */
  each(run: number, see: Parameters<CountedRun['eachEvent']>[0]): void {
    const [runs = [], kinds = [], received = [], sent = []] = (this.#lists ??= this.read());
    while (Number(runs[this.#at] ?? Infinity) < run) this.#at++;
    for (; runs[this.#at] === run; this.#at++) {
      const at = this.#at;
      see(wordAt(EVENT_KINDS, kinds[at]), Number(received[at]), (sent[at] as number | null) ?? undefined);
    }
  }
}
