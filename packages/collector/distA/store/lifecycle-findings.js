/** In words, what the keys of a log say against the actions in it: for `collector verify`. */
import { decodeEnvelope } from '@clinical-events/protocol';
import { eventsOf, takenBy } from '../privacy/actions.js';
import { SequenceSet } from '../privacy/sequence-set.js';
import { counted } from '../quantity.js';
import { eventRange, } from './log-audit.js';
import { isNoId, uuidText } from './text.js';
/** Of a kind so many are listed, and the rest is counted. */
const MOST = 10_000;
/**
 * Events that opened, and an action says that they do not any more. It may have come after they were read: they are to be
 * read once more.
 */
export function shouldBeGone({ actions, keyless, unread, keys, }) {
    if (keys === undefined)
        return SequenceSet.EMPTY;
    const pending = eventsOf(actions.taken('undone'));
    return actions.retired.without(pending).without(keyless).without(unread);
}
/** Events without a key that an erasure explains which the log does not have. Numbers are given again, and keys are not. */
export class ErasedElsewhere {
    keys;
    #byKey;
    /** Of a log in a database: its mirrors have keys of their own, and its numbers. */
    #shared;
    #found = [];
    /** Whose payload was taken out, and with it the name of its key. */
    #nameless = [];
    constructor(keys) {
        this.keys = keys;
        this.#byKey = Map.groupBy(keys, ({ tag, organisation }) => `${tag} ${organisation}`);
        this.#shared = keys.filter(({ places }) => places !== undefined);
    }
    /** @param key which is missing; undefined where nobody can say which it was. */
    meet(sequence, key) {
        if (key === undefined) {
            if (this.keys.length > 0)
                this.#nameless.push(sequence);
            return;
        }
        const { tag, organisation, place } = key;
        const isFound = place === undefined && this.#shared.length > 0
            ? this.#shared.some((each) => each.organisation === organisation && each.sequences.has(sequence))
            : this.#byKey
                .get(`${tag} ${organisation}`)
                ?.some(({ sequences, places = sequences }) => places.has(place ?? sequence));
        if (isFound)
            this.#found.push(sequence);
    }
    /** Of the events that were met. */
    get explained() {
        return SequenceSet.of(this.#found).with(SequenceSet.of(this.#nameless).within(eventsOf(this.keys)));
    }
}
/**
 * Tells events that have no key though no action has taken it, and those whose keys are there though one has. Where there
 * are no keys at all neither can be told. What lies beside the keys is signed by nobody, and explains nothing.
 */
export function tellLifecycle({ actions, keyless, keys, later, back }, findings) {
    const { retired } = actions;
    const pending = eventsOf(actions.taken('undone'));
    const add = (kind, sequences, what) => {
        for (const [i, { first, end }] of [...sequences].entries()) {
            const message = `${eventRange(first, end - first)} ${what}`;
            if (i < MOST)
                findings.add({ kind, sequence: first, message });
            else
                findings.unlisted++;
        }
    };
    const explained = keyless.without(retired).within(later);
    if (explained.size > 0) {
        const message = `${counted(explained.size, 'event')} cannot be opened: an action behind the end of this state of the log has destroyed their keys`;
        findings.add({ kind: 'note', message });
    }
    const unexplained = keyless.without(retired).without(later);
    const noted = unexplained.size > 0 ? eventsOf(takenBy(keys?.noted() ?? [])) : SequenceSet.EMPTY;
    const why = 'cannot be opened: the key is missing, and no action in the log has destroyed it';
    add('unexplained', unexplained.without(noted), why);
    add('unexplained', unexplained.within(noted), `${why}; one lies beside the keys, which proves nothing. If this log was restored, start the collector, which takes ` +
        'it into the log');
    add('not_retired', back, 'can be opened, and an action in the log says that no key is left: the keys are of an older state, and the next ' +
        'start destroys them');
    const moved = actions.logged.flatMap(({ said }) => (said.does === 'quarantine' ? [said] : []));
    const quarantined = moved.reduce((sum, { batches }) => sum + batches, 0);
    if (moved.length > 0) {
        const ids = moved.reduce((sum, each) => sum + each.ids, 0);
        const what = `${counted(quarantined, 'batch', 'batches')} and ${counted(ids, 'id')}`;
        findings.add({ kind: 'note', message: `${what} are quarantined: no collector has stored them` });
    }
    const reasons = new Map();
    let told = SequenceSet.EMPTY;
    for (const { said } of actions.logged) {
        if (said.does !== 'retire')
            continue;
        const own = eventsOf(said.keys).without(told);
        told = told.with(own);
        reasons.set(said.reason, (reasons.get(said.reason) ?? 0) + own.size);
    }
    return { retired: Object.fromEntries(reasons), retiring: pending.size, quarantined };
}
/** What an envelope says of an event that was erased; undefined when it cannot be read. */
export function erasedEvent(sequence, envelope) {
    try {
        const { organisation, kind, runId, eventId, parentId } = decodeEnvelope(envelope).envelope;
        const recordId = uuidText(Buffer.from(isNoId(runId) ? eventId : runId));
        const hangs = kind === 'inference-start' || isNoId(runId);
        return {
            sequence,
            organisation,
            recordId,
            parentId: hangs ? uuidText(Buffer.from(parentId)) : undefined,
        };
    }
    catch (error) {
        if (error instanceof RangeError)
            return undefined;
        throw error;
    }
}
/** In the order of their events. Of several actions over one event the first counts. */
export function erasedUnderHolds(actions) {
    const found = [];
    const standing = new Set();
    let erased = SequenceSet.EMPTY;
    for (const { said } of actions.logged) {
        if (said.does === 'hold')
            standing.add(said.action);
        else if (said.does === 'unhold')
            standing.delete(said.hold);
        else if (said.does === 'retire') {
            const sequences = eventsOf(said.keys);
            const by = { action: said.action, holds: [...standing] };
            if (standing.size > 0)
                for (const { first, end } of sequences.without(erased))
                    found.push({ first, end, ...by });
            erased = erased.with(sequences);
        }
    }
    return found.sort((a, b) => a.first - b.first);
}
/**
 * What was erased though a hold was on it, or though one stood of which nobody can tell what it held.
 * @param holds by the actions with which they began; one whose record is gone or changed is missing.
 * @param events what is left of the events that were erased under holds, in their order.
 */
export async function* heldFindings(erased, holds, events) {
    let found;
    const told = ({ first, end, action, why }) => ({
        ...{ kind: 'unlawful', sequence: first },
        message: `${eventRange(first, end - first)} ${end - first === 1 ? 'was' : 'were'} erased by action ${action}, although ${why}`,
    });
    let place = 0;
    for await (const event of events) {
        const { sequence } = event;
        while ((erased[place]?.end ?? Infinity) <= sequence)
            place++;
        const { action = '', holds: standing = [] } = erased[place] ?? {};
        const why = holdOver(event, standing, holds);
        if (found?.end === sequence && found.action === action && found.why === why) {
            found.end++;
            continue;
        }
        if (found !== undefined)
            yield told(found);
        found = why === undefined ? undefined : { first: sequence, end: sequence + 1, action, why };
    }
    if (found !== undefined)
        yield told(found);
}
function holdOver({ organisation, recordId, parentId, sequence }, standing, holds) {
    for (const { name, organisations, runs, events } of standing.flatMap((id) => holds.get(id) ?? []))
        if (organisations.has(organisation) ||
            runs.has(recordId) ||
            (parentId !== undefined && runs.has(parentId)) ||
            events.has(sequence))
            return `the hold ${name} was on it`;
    const unknown = standing.find((id) => !holds.has(id));
    return unknown && `hold ${unknown} stood, and its record is not here as it was written`;
}
//# sourceMappingURL=lifecycle-findings.js.map