import { SequenceSet } from './sequence-set.js';
const FORMAT = 'clinical-events/action/v1';
/** Every body of the log's own begins with it. */
const ENTRY_ID = /^\{"event_id":"([0-9a-f-]{36})"/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const SHA256 = /^[0-9a-f]{64}$/;
/** Why events are retired. Closed: free text could name a person. */
export const REASONS = [
    'policy',
    'erasure-request',
    'consent-withdrawn',
    'objection',
    'unlawful-processing',
    'legal-obligation',
    'court-order',
    'tenant-end',
    'test-data',
    'sent-in-error',
];
/** Reasons to which the floors of a policy may yield. Holds yield to none. */
export const ABOVE_FLOORS = [
    'court-order',
    'unlawful-processing',
    'sent-in-error',
    'test-data',
];
/** To be written as JSON, in an entry behind its id. */
export function actionFields(action) {
    if (action.does !== 'retire')
        return { format: FORMAT, ...action };
    const { keys, ...said } = action;
    return {
        ...{ format: FORMAT, ...said, events: eventsOf(keys).size },
        keys: keys.map(({ tag, organisation, sequences, places }) => ({
            ...{ bucket: tag.toString(16).padStart(8, '0'), organisation, set: sequences.toText() },
            ...(places && { places: places.toText() }),
        })),
    };
}
export function eventsOf(keys) {
    return SequenceSet.union(keys.map(({ sequences }) => sequences));
}
/** Undefined for what is none, or of a later version. */
export function actionIn(body) {
    let read;
    try {
        read = Object(JSON.parse(body.toString()));
    }
    catch {
        return undefined;
    }
    return read['format'] === FORMAT ? actionFrom(read) : undefined;
}
/** Of JSON that was parsed; undefined for what is no action. */
export function actionFrom(read) {
    const { action, does, reason, policy, rule, part = 1, parts = 1, record, hold, epoch } = read;
    if (!isId(action))
        return undefined;
    switch (does) {
        case 'done':
            return { action, does };
        case 'policy':
            return { action, does, policy };
        case 'hold':
            return typeof record === 'string' ? { action, does, record } : undefined;
        case 'unhold':
            return isId(hold) ? { action, does, hold } : undefined;
        case 'keys':
            return isCount(epoch) ? { action, does, epoch } : undefined;
        case 'quarantine': {
            const [batches, entries, ids] = ['batches', 'entries', 'ids'].map((name) => Number(read[name]));
            const isWhole = [batches, entries, ids].every((n) => Number.isSafeInteger(n) && Number(n) >= 0);
            return isWhole
                ? { action, does, batches: batches ?? 0, entries: entries ?? 0, ids: ids ?? 0 }
                : undefined;
        }
        case 'retire': {
            const known = REASONS.find((each) => each === reason);
            const keys = keysFrom(read['keys']);
            const planned = plannedFrom(read);
            if (known === undefined || keys === undefined || planned === undefined)
                return undefined;
            if (!isCount(part) || !isCount(parts))
                return undefined;
            return {
                ...{ action, does, reason: known, part, parts, keys },
                ...(isId(policy) && { policy }),
                ...(typeof rule === 'string' && { rule }),
                ...planned,
            };
        }
        default:
            return undefined;
    }
}
/** Undefined where one of these members is not of its type. */
function plannedFrom(read) {
    const planned = {};
    for (const name of ['plan', 'marks', 'record']) {
        const value = read[name];
        if (typeof value === 'string' && SHA256.test(value))
            planned[name] = value;
        else if (value !== undefined)
            return undefined;
    }
    for (const name of ['override', 'incomplete']) {
        if (read[name] === true)
            planned[name] = true;
        else if (read[name] !== undefined)
            return undefined;
    }
    return planned;
}
function keysFrom(read) {
    if (!Array.isArray(read))
        return undefined;
    const keys = [];
    for (const each of read) {
        const { bucket, organisation, set, places } = Object(each);
        const sequences = setFrom(set);
        const counted = setFrom(places);
        if (typeof bucket !== 'string' || !/^[0-9a-f]{8}$/.test(bucket))
            return undefined;
        if (typeof organisation !== 'string' || sequences === undefined)
            return undefined;
        if (places !== undefined && counted?.size !== sequences.size)
            return undefined;
        const tag = Number.parseInt(bucket, 16);
        keys.push({ tag, organisation, sequences, ...(counted && { places: counted }) });
    }
    return keys;
}
function setFrom(text) {
    return typeof text === 'string' ? SequenceSet.fromText(text) : undefined;
}
function isId(value) {
    return typeof value === 'string' && UUID.test(value);
}
function isCount(value) {
    return Number.isSafeInteger(value) && Number(value) > 0;
}
/** Bytes of sets in a part, so that its entry is about as large as an event may be. */
const PART_BYTES = 128 << 10;
/** Divides what is to be retired into parts. @param keys one for each bucket and organisation. */
export function partsOf(retire) {
    const groups = [[]];
    let bytes = 0;
    for (const each of retire.keys) {
        const size = each.sequences.toText().length + (each.places?.toText().length ?? 0);
        if (bytes > 0 && bytes + size > PART_BYTES) {
            groups.push([]);
            bytes = 0;
        }
        groups.at(-1)?.push(each);
        bytes += size;
    }
    return groups.map((keys, i) => ({ ...retire, keys, part: i + 1, parts: groups.length }));
}
/** The keys that actions noted beside them say are destroyed, whether the log has these actions or not. */
export function takenBy(noted) {
    return noted.flatMap((body) => {
        const said = actionIn(body);
        return said?.does === 'retire' ? said.keys : [];
    });
}
/** The actions of a log, in its order. */
export class Actions {
    logged = [];
    #retired = SequenceSet.EMPTY;
    /** Of each event the first. */
    #retirements = [];
    /** Of a log in a database: by tag and organisation the places whose keys were to be destroyed. */
    #places = new Map();
    /** @returns whether the body says one that is known here. */
    add(sequence, at, body) {
        const said = actionIn(body);
        if (said === undefined)
            return false;
        const entryId = ENTRY_ID.exec(body.toString('latin1', 0, 64))?.[1] ?? '';
        this.logged.push({ sequence, entryId, at, said });
        if (said.does === 'retire') {
            const sequences = eventsOf(said.keys);
            const { action, reason } = said;
            this.#retirements.push({
                sequences: sequences.without(this.#retired),
                retirement: { action, reason, at },
            });
            this.#retired = this.#retired.with(sequences);
            for (const { tag, organisation, places } of said.keys) {
                if (places === undefined)
                    continue;
                const name = `${tag} ${organisation}`;
                this.#places.set(name, (this.#places.get(name) ?? SequenceSet.EMPTY).with(places));
            }
        }
        return true;
    }
    /** All events whose keys were to be destroyed. */
    get retired() {
        return this.#retired;
    }
    /** Whether the key of a place was to be destroyed, of a log in a database. */
    isTaken(tag, organisation, place) {
        return this.#places.get(`${tag} ${organisation}`)?.has(place) === true;
    }
    /** By what an event was retired; undefined when it was not. */
    retirementOf(sequence) {
        if (!this.#retired.has(sequence))
            return undefined;
        return this.#retirements.find(({ sequences }) => sequences.has(sequence))?.retirement;
    }
    /** The parts of an action that are in the log. */
    partsIn(action) {
        return this.#said('retire').filter((said) => said.action === action);
    }
    /** Whether all parts of an action are in the log. */
    isWhole(action) {
        const parts = this.partsIn(action);
        return parts.length >= (parts[0]?.parts ?? 0);
    }
    /** When an action was done, in ms since 1970; undefined when it is not. */
    doneAt(action) {
        return this.logged.find(({ said }) => said.does === 'done' && said.action === action)?.at;
    }
    /** The keys that are to be destroyed by actions that are not done, or by all. */
    taken(which) {
        const retires = this.#said('retire');
        const done = new Set(this.#said('done').map(({ action }) => action));
        return retires.flatMap(({ action, keys }) => (which === 'undone' && done.has(action) ? [] : keys));
    }
    /** Actions whose keys may still be somewhere, oldest first. */
    undone() {
        const done = new Set(this.#said('done').map(({ action }) => action));
        const ids = this.#said('retire').map(({ action }) => action);
        return [...new Set(ids)].filter((action) => !done.has(action));
    }
    /** The policy that holds; undefined while none was set. */
    get policy() {
        return this.#said('policy').at(-1);
    }
    /** The holds that are not over, by their ids, and what binds their records. */
    get holds() {
        const over = new Set(this.#said('unhold').map(({ hold }) => hold));
        const begun = this.#said('hold').filter(({ action }) => !over.has(action));
        return new Map(begun.map(({ action, record }) => [action, record]));
    }
    #said(does) {
        return this.logged.flatMap(({ said }) => said.does === does ? [said] : []);
    }
}
//# sourceMappingURL=actions.js.map