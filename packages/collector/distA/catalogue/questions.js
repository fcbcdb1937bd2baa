/** What may be asked of the catalogue, as the statements that find it. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { FEEDBACK_WORDS, OUTCOME_WORDS } from '../records/vocabulary.js';
import { uuidBytes } from '../store/text.js';
import { beganIn, countedIn, RARE, UNCOUNTED, LEVELS, NAME_COLUMNS, SUMMARY_COLUMNS, wordAt, } from './columns.js';
import { IS } from './schema.js';
/** What a statement asks for. */
class Conditions {
    terms = [];
    values = [];
    add(term, ...values) {
        this.terms.push(term);
        this.values.push(...values);
    }
    get where() {
        return this.terms.length === 0 ? '' : `WHERE ${this.terms.join(' AND ')}`;
    }
    /** @returns false when nothing can match. */
    addNames({ organisation, target, user, application, models }, nameId) {
        for (const [column, text] of Object.entries({ organisation, target, user, application })) {
            if (text === undefined)
                continue;
            const id = nameId(text);
            if (id === undefined)
                return false;
            this.add(`run.${column} = ?`, id);
        }
        if (models === undefined)
            return true;
        const known = models.flatMap((asked) => modelTerm(asked, nameId) ?? []);
        // The first term is that of the index.
        if (known.length > 1)
            this.add(`run.model IN (${known.map(({ id }) => id).join(', ')})`);
        this.add(known.length === 1 ? (known[0]?.term ?? '') : `(${known.map(({ term }) => term).join(' OR ')})`);
        return known.length > 0;
    }
}
/** @returns undefined when nothing can match. */
function conditionsOf(filter, nameId) {
    const asked = new Conditions();
    if (!asked.addNames(filter, nameId))
        return undefined;
    const { recordId, since, until, noOutcomeSince, afterSequence, eventsSince, isRun } = filter;
    const began = beganBy(filter);
    if (recordId !== undefined)
        asked.add('record = ?', uuidBytes(recordId));
    if (since !== undefined)
        asked.add(`${began} >= ?`, since);
    if (until !== undefined)
        asked.add(`${began} < ?`, until);
    if (noOutcomeSince !== undefined)
        asked.add(`outcome = ${OUTCOME_WORDS.indexOf('none')} AND ${began} < ?`, noOutcomeSince);
    if (afterSequence !== undefined)
        asked.add('last_sequence > ?', afterSequence);
    if (eventsSince !== undefined) {
        const within = 'event.run = run.id AND received >= ? AND received < ?';
        asked.add(`EXISTS (SELECT 1 FROM event WHERE ${within})`, eventsSince, until ?? Infinity);
    }
    if (isRun !== undefined)
        asked.add('is_run = ?', isRun ? 1 : 0);
    for (const term of markTerms(filter))
        asked.add(term);
    return asked;
}
function beganBy({ clock }) {
    return clock === 'sender' ? 'began_sender' : 'began_received';
}
/** @returns undefined when nothing can match. */
export function queryOf(filter, nameId) {
    const asked = conditionsOf(filter, nameId);
    if (asked === undefined)
        return undefined;
    const { where, values } = asked;
    return { where: `INDEXED BY run_${indexFor(filter)} ${where}`, order: orderOf(filter), values };
}
/** Both an id and a version may have an @ in them, so that MODEL_ID@VERSION can be meant in several ways. */
export function modelsNamed(text) {
    const parts = [...text.matchAll(/@/g)].map(({ index }) => ({
        model: text.slice(0, index),
        version: text.slice(index + 1),
    }));
    return [{ model: text }, ...parts.filter(({ model }) => model !== '')];
}
/** The ids are numbers of our own. */
function modelTerm({ model, version }, nameId) {
    const id = nameId(model);
    if (id === undefined)
        return undefined;
    const term = `run.model = ${id}`;
    if (version === undefined)
        return { id, term };
    const versionId = nameId(version);
    if (version === '') {
        const empty = versionId === undefined ? '' : ` OR run.version = ${versionId}`;
        return { id, term: `${term} AND (run.version IS NULL${empty})` };
    }
    return versionId === undefined ? undefined : { id, term: `${term} AND run.version = ${versionId}` };
}
function markTerms({ outcome, feedback, level, hasConflict, failed }) {
    const terms = [];
    if (outcome !== undefined)
        terms.push(`outcome = ${OUTCOME_WORDS.indexOf(outcome)}`);
    if (feedback !== undefined)
        terms.push(feedbackTerm(feedback));
    if (level !== undefined)
        terms.push(`level = ${LEVELS.indexOf(level)}`);
    if (hasConflict !== undefined)
        terms.push(hasConflict ? IS.conflict : `NOT (${IS.conflict})`);
    if (failed !== undefined)
        terms.push(failed ? IS.failed : `(${IS.failed}) IS NOT TRUE`);
    return terms;
}
function feedbackTerm(asked) {
    if (asked === 'none' || asked === 'any')
        return asked === 'none' ? 'feedbacks = 0' : 'feedbacks > 0';
    return FEEDBACK_WORDS.some((word) => word === asked) ? `said_${asked} > 0` : `thumbs_${asked} > 0`;
}
/** The index that leaves the fewest rows. SQLite knows nothing of how often a value is there, and would guess. */
function indexFor(filter) {
    const { order, organisation, clock } = filter;
    const terms = markTerms(filter);
    const indexes = [
        ['record', filter.recordId !== undefined],
        ['target', filter.target !== undefined],
        ['user', filter.user !== undefined],
        ['last', filter.afterSequence !== undefined],
        ['conflict', terms.includes(IS.conflict)],
        ['failed', terms.includes(IS.failed)],
        ['contradicted', terms.includes(IS.contradicted)],
        // An export of a model goes through all records in their order, which costs less than to sort its own.
        ['first', order === 'log'],
        ['sender', order === 'sender'],
        ['model', filter.models !== undefined],
        ['incomplete', terms.includes(IS.incomplete)],
        ['organisation', organisation !== undefined && clock !== 'sender'],
        ['sender', clock === 'sender'],
    ];
    return indexes.find(([, isFit]) => isFit)?.[0] ?? 'received';
}
function orderOf(filter) {
    const { order = 'newest', limit } = filter;
    const most = limit === undefined ? '' : ` LIMIT ${Math.max(0, Math.floor(limit))}`;
    if (order === 'log')
        return `ORDER BY first_sequence, id${most}`;
    if (order === 'sender')
        return `ORDER BY began_sender, id${most}`;
    const way = order === 'newest' ? 'DESC' : 'ASC';
    return `ORDER BY ${beganBy(filter)} ${way}, id ${way}${most}`;
}
/** The same as a filter of runs. */
export function filterOf(selection) {
    const { recordId, organisation, model, isIncomplete, after, since, until, clock, order = 'log', } = selection;
    return {
        ...{ recordId, organisation, afterSequence: after, until, clock, order },
        models: model === undefined ? undefined : modelsNamed(model),
        level: isIncomplete === true ? 'incomplete' : undefined,
        ...(clock === 'sender' ? { since } : { eventsSince: since }),
    };
}
/*
 * What a report counts of records. SQLite hands over many rows as one, a list of each column: to be handed each row
 * takes twice as long.
 */
const OWN = ['id', 'organisation', 'is_run', 'model', 'version'];
const COUNTED = SUMMARY_COLUMNS.map(({ name }) => name).filter((name) => ![...NAME_COLUMNS, ...RARE, ...UNCOUNTED].includes(name));
/** By the place of a column among those of a summary, its place in a page; and among the rare columns. */
const IN_PAGE = SUMMARY_COLUMNS.map(({ name }) => COUNTED.includes(name) ? OWN.length + COUNTED.indexOf(name) : -1);
const IN_RARE = SUMMARY_COLUMNS.map(({ name }) => 1 + RARE.indexOf(name));
const listOf = (column) => `json_group_array(${column})`;
/** A row's id is the sequence of an event of it. */
const PAGE_SEQUENCES = 16_384;
const OF_PAGE = 'FROM (SELECT * FROM run NOT INDEXED WHERE id > ? AND id <= ?) AS run';
const PAGE = `SELECT ${[...OWN, ...COUNTED].map(listOf).join()} ${OF_PAGE}`;
const RARE_OF_PAGE = `SELECT id, ${RARE.join()} ${OF_PAGE} WHERE feedbacks > 0 OR ending IS NOT NULL`;
const TIMES = `SELECT ${['run', 'kind', 'received', 'sent'].map(listOf).join()} FROM event WHERE run > ? AND run <= ?`;
/** Calls for each record. @returns how far it has come, after each page: a sequence. */
export function* countedPages(source, selection, visit) {
    const { statements, names } = source;
    // What is asked of the time of events is for the visitor.
    const filter = { ...filterOf(selection), eventsSince: undefined };
    const asked = conditionsOf(filter, (text) => names.known(text));
    if (asked === undefined)
        return;
    const last = Number(statements.first('SELECT max(id) FROM run')?.[0]);
    for (let at = 0; at < last; at += PAGE_SEQUENCES) {
        const range = [at, at + PAGE_SEQUENCES];
        const page = listsIn(statements.first(`${PAGE} ${asked.where}`, ...range, ...asked.values));
        const rare = new Map(statements.all(RARE_OF_PAGE, ...range).map((row) => [Number(row[0]), row]));
        const times = new EventTimes(() => listsIn(statements.first(TIMES, ...range)));
        visitPage(source, { page, rare, times }, visit);
        yield Math.min(at + PAGE_SEQUENCES, last);
    }
}
function listsIn(row) {
    return (row ?? []).map((list) => JSON.parse(list));
}
function visitPage({ names }, { page, rare, times }, visit) {
    const [ids = [], organisations = [], areRuns = [], models = [], versions = []] = page;
    const nameOf = (id) => typeof id === 'number' ? names.nameOf(id) : null;
    for (const [i, id] of ids.entries()) {
        const cells = (place) => {
            const column = IN_PAGE[place] ?? -1;
            return column >= 0 ? page[column]?.[i] : rare.get(Number(id))?.[IN_RARE[place] ?? 0];
        };
        visit({
            organisation: names.nameOf(Number(organisations[i])),
            isRun: areRuns[i] === 1,
            began: beganIn(cells),
            modelId: nameOf(models[i]),
            modelVersion: nameOf(versions[i]),
            summary: countedIn(cells),
            eachEvent: (see) => times.each(Number(id), see),
        });
    }
}
/** When the events of a page of records came and were sent: read once they are asked for. */
class EventTimes {
    read;
    #lists;
    #at = 0;
    constructor(read) {
        this.read = read;
    }
    /** For the records in their order. */
    each(run, see) {
        const [runs = [], kinds = [], received = [], sent = []] = (this.#lists ??= this.read());
        while (Number(runs[this.#at] ?? Infinity) < run)
            this.#at++;
        for (; runs[this.#at] === run; this.#at++) {
            const at = this.#at;
            see(wordAt(EVENT_KINDS, kinds[at]), Number(received[at]), sent[at] ?? undefined);
        }
    }
}
//# sourceMappingURL=questions.js.map