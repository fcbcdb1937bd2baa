import { SequenceSet } from '../../privacy/sequence-set.js';
import { ID_BYTES } from '../../store/contract/events.js';
import { isNoId, latin1, uuidText } from '../../store/text.js';
import { Mentions } from './mentions.js';
export function put(map, organisation, id, value) {
    let ids = map.get(organisation);
    if (ids === undefined)
        map.set(organisation, (ids = new Map()));
    ids.set(id, value);
}
/** @param onBytes called with the bytes of each batch. @throws StoreDamaged; what the signal is aborted with. */
export async function pass(log, job, onBytes, signal) {
    const erased = log.actions?.().retired ?? SequenceSet.EMPTY;
    const work = 'find' in job ? new Finding(job.find, erased) : new Collecting(job.collect, erased);
    for await (const batch of log.pass({ sequence: job.from, at: 0 }, { through: job.through })) {
        signal?.throwIfAborted();
        let bytes = 0;
        for (const entry of batch) {
            bytes += entry.size;
            if (!entry.isOwn)
                work.take(entry);
        }
        onBytes(bytes);
    }
    return work.answer();
}
class Finding {
    sought;
    erased;
    #organisations = new Set();
    #organisation = '';
    #runs = new Map();
    #runless = new Map();
    #events = [];
    #ofErased = { runs: new Map(), runless: new Map() };
    #subjects;
    #eventIds;
    #inErased;
    #likely;
    #mentions;
    #unread = 0;
    constructor(sought, erased) {
        this.sought = sought;
        this.erased = erased;
        const { subjects, mentions, events } = sought;
        this.#subjects = new Set(subjects);
        this.#eventIds = new Set(events);
        this.#inErased = SequenceSet.fromText(sought.erased) ?? SequenceSet.EMPTY;
        this.#likely = likely(subjects);
        this.#mentions = mentions ? new Mentions(subjects) : undefined;
    }
    take(entry) {
        const { organisation, source, eventIdAt, runIdAt, kind } = entry;
        const { sought } = this;
        if (organisation !== this.#organisation)
            this.#organisations.add((this.#organisation = organisation));
        if (sought.organisation !== undefined && sought.organisation !== organisation)
            return;
        const isStart = kind === 'inference-start';
        const isRunless = isNoId(source, runIdAt);
        if (this.#eventIds.size > 0 && this.#eventIds.has(idAt(source, eventIdAt)))
            this.#events.push({ ...eventOf(entry), isMention: false });
        if (sought.runs.length > 0) {
            const at = isRunless ? eventIdAt : runIdAt;
            const digits = source.toString('hex', at, at + ID_BYTES);
            if (sought.runs.some((beginning) => digits.startsWith(beginning)))
                put(isRunless ? this.#runless : this.#runs, organisation, idAt(source, at), true);
        }
        if (this.#inErased.has(entry.sequence)) {
            const { runs, runless } = this.#ofErased;
            const at = isRunless ? eventIdAt : runIdAt;
            put(isRunless ? runless : runs, organisation, idAt(source, at), true);
        }
        if (this.#subjects.size === 0 || !(isStart || this.#mentions !== undefined))
            return;
        const body = entry.body();
        if (body === undefined) {
            if (!this.erased.has(entry.sequence))
                this.#unread++;
            return;
        }
        if (isStart && this.#isAbout(body))
            this.#add(entry);
        else if (this.#mentions?.areIn(body))
            this.#events.push({ ...eventOf(entry), isMention: true });
    }
    answer() {
        return {
            ...{ organisations: this.#organisations, runs: this.#runs, runless: this.#runless },
            ...{ events: this.#events, erased: this.#ofErased, unread: this.#unread },
        };
    }
    #add({ organisation, source, runIdAt }) {
        put(this.#runs, organisation, idAt(source, runIdAt), true);
    }
    #isAbout(body) {
        if (this.#likely.length > 0 && !this.#likely.some((each) => body.includes(each)))
            return false;
        const { target, caller } = personsIn(body);
        return [target, caller].some((id) => id !== undefined && this.#subjects.has(id));
    }
}
class Collecting {
    wanted;
    erased;
    #events = [];
    constructor(wanted, erased) {
        this.wanted = wanted;
        this.erased = erased;
    }
    take(entry) {
        const { organisation, source, eventIdAt, runIdAt } = entry;
        const { runs, on } = this.wanted;
        const isOfRun = runs.get(organisation)?.has(idAt(source, runIdAt)) === true;
        if (!isOfRun && !this.#hangs(entry))
            return;
        // What hangs on an event without a run is of the same record.
        if (isNoId(source, runIdAt))
            put(on, organisation, idAt(source, eventIdAt), true);
        const event = eventOf(entry);
        const isStart = event.kind === 'inference-start';
        this.#events.push({ ...event, ...(isStart && { start: startOf(entry, event, this.erased) }) });
    }
    #hangs({ organisation, source, parentIdAt, runIdAt, kind }) {
        if (kind !== 'inference-start' && !isNoId(source, runIdAt))
            return false;
        return this.wanted.on.get(organisation)?.has(idAt(source, parentIdAt)) === true;
    }
    answer() {
        return { events: this.#events };
    }
}
export function eventOf(entry) {
    const { sequence, at, size, kind, organisation, receivedAt, source, eventIdAt, runIdAt, parentIdAt } = entry;
    return {
        ...{ sequence, at, size, kind, organisation, receivedAt, id: idAt(source, eventIdAt) },
        runId: isNoId(source, runIdAt) ? undefined : idAt(source, runIdAt),
        parent: isNoId(source, parentIdAt) ? undefined : idAt(source, parentIdAt),
    };
}
function idAt(source, at) {
    return latin1(source, at, at + ID_BYTES);
}
function startOf(entry, { sequence, parent }, erased) {
    const body = entry.body();
    if (body === undefined)
        return { sequence, state: erased.has(sequence) ? 'erased' : 'unread', parent };
    return { sequence, state: 'read', parent, ...personsIn(body) };
}
/** @param body of a start that was stored: it is JSON. */
function personsIn(body) {
    const { target_identity, user_identity } = Object(JSON.parse(body.toString()));
    const target = idIn(Object(target_identity), 'target_id');
    const caller = idIn(Object(user_identity), 'caller_id');
    return { ...(target !== undefined && { target }), ...(caller !== undefined && { caller }) };
}
function idIn(identity, name) {
    const id = identity[name];
    return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined;
}
/** To search for a few ids costs less than to parse a start; for many it costs more. */
const MOST_SEARCHED = 16;
/** A start about one of the ids holds one of these: the id as JSON.stringify writes it, or an escape (RFC 8259, 7). */
function likely(ids) {
    if (ids.length > MOST_SEARCHED)
        return [];
    const escapes = ['\\u', ...(ids.some((id) => id.includes('/')) ? ['\\/'] : [])];
    const texts = ids.map((id) => JSON.stringify(id).slice(1, -1));
    return [...texts, ...escapes].map((each) => Buffer.from(each));
}
export function idOf(text) {
    return Buffer.from(text.replaceAll('-', ''), 'hex').toString('latin1');
}
export function textOf(id) {
    return uuidText(Buffer.from(id, 'latin1'));
}
//# sourceMappingURL=log-stretch.js.map