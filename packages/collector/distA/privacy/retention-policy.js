/**
 * The retention policy: how long events are kept, by which rule, and how long they have to be kept at least. Pure.
 *
 * The first rule that matches decides, else `default`. A floor holds for rules and for erasures on request alike. Times are
 * calendar times in UTC: a month after 31 January is the last day of February.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';
/** A text of it goes into the log whole. */
const MOST_POLICY_BYTES = 64 << 10;
const DURATION = /^P(?=\d)(?:(\d{1,4})Y)?(?:(\d{1,5})M)?(?:(\d{1,6})D)?$/;
const ID = /^[A-Za-z0-9._-]{1,64}$/;
const MATCHED = ['organisation', 'kind', 'model_id', 'model_version'];
/** In which a * at the end stands for anything. */
const WITH_PREFIXES = ['model_id', 'model_version'];
const AGES = ['run_start', 'last_event', 'received_at'];
const UNITS = ['run', 'event'];
/** Days a month has at least, and at most, for the comparison of durations. */
const [SHORTEST_MONTH, LONGEST_MONTH] = [28, 31];
const DAY_MS = 86_400_000;
/** It is no policy. @param faults one line each, with the place in it. */
export class PolicyFault extends Error {
    faults;
    name = 'PolicyFault';
    constructor(faults) {
        super(faults.join('; '));
        this.faults = faults;
    }
}
export class RetentionPolicy {
    name;
    ageFrom;
    rules;
    floors;
    constructor(name, 
    /** From when on an event is kept: of a run its start or its last event, or each event by itself. */
    ageFrom, rules, floors) {
        this.name = name;
        this.ageFrom = ageFrom;
        this.rules = rules;
        this.floors = floors;
    }
    /** The rules by which everything is due as soon as it has come. */
    keepingNothing() {
        return this.rules.filter(({ keep }) => after(0, keep) === 0).map(({ id }) => id);
    }
    /** The rule that decides, and whether it is about each event by itself. */
    ruleFor(facts) {
        const { id, unit } = this.#ruleFor(facts);
        return { id, unit };
    }
    /** Until when it is kept, in ms since 1970; undefined for ever. @param from its age counts from then. */
    keptUntil(facts, from) {
        return after(from, this.#ruleFor(facts).keep);
    }
    /**
     * The floor that holds it longest, when that is not over. A run's events are held by their own age, not by the run's.
     * @param received when the event came.
     */
    heldBy(facts, received, now) {
        let longest;
        for (const { id, match, keep } of this.floors) {
            if (!matches(match, facts))
                continue;
            const until = after(received, keep) ?? Infinity;
            if (until > now && until > (longest?.until ?? 0))
                longest = { id, until };
        }
        return longest;
    }
    /** Whether the rule that decides is above the floors, as for test data. */
    isAboveFloors(facts) {
        return this.#ruleFor(facts).isAboveFloors;
    }
    #ruleFor(facts) {
        const rule = this.rules.find(({ match }) => matches(match, facts));
        if (rule === undefined)
            throw new Error('a policy has a default');
        return rule;
    }
}
/** @throws PolicyFault with every fault. */
export function parsePolicy(text) {
    if (Buffer.byteLength(text) > MOST_POLICY_BYTES)
        throw new PolicyFault([`it is larger than ${MOST_POLICY_BYTES / 1024} KiB`]);
    let read;
    try {
        read = JSON.parse(text);
    }
    catch {
        throw new PolicyFault(['it is not JSON']);
    }
    return policyFrom(read);
}
/** The same of JSON that was parsed, as an action has it. @throws PolicyFault */
export function policyFrom(read) {
    const reading = new Reading();
    const policy = reading.object('', read, [
        ...['$schema', 'version', 'name', 'owner', 'unit', 'age_from', 'floors', 'rules', 'default'],
    ]);
    if (policy['version'] !== 1)
        reading.fault('version', 'has to be 1');
    const name = reading.text('name', policy['name']);
    if (policy['owner'] !== undefined)
        reading.text('owner', policy['owner']);
    const unit = reading.word('unit', policy['unit'], UNITS, 'run');
    const ageFrom = reading.word('age_from', policy['age_from'], AGES, 'last_event');
    const floors = reading.list('floors', policy['floors']).map((each, i) => {
        const floor = reading.object(`floors[${i}]`, each, ['id', 'match', 'keep', 'basis']);
        if (floor['basis'] !== undefined)
            reading.text(`floors[${i}].basis`, floor['basis']);
        return reading.floor(`floors[${i}]`, floor);
    });
    const rules = reading.list('rules', policy['rules']).map((each, i) => {
        const at = `rules[${i}]`;
        const rule = reading.object(at, each, ['id', 'match', 'keep', 'unit', 'floor']);
        const above = rule['floor'];
        if (above !== undefined && above !== 'none')
            reading.fault(`${at}.floor`, 'can only be "none"');
        const own = reading.word(`${at}.unit`, rule['unit'], UNITS, unit);
        const { kind } = Object(rule['match']);
        if (own === 'run' && kind !== undefined)
            reading.fault(at, 'names kinds, which a run has several of: its unit has to be "event"');
        return { ...reading.floor(at, rule), unit: own, isAboveFloors: above === 'none' };
    });
    const last = reading.object('default', policy['default'], ['keep']);
    const keep = reading.keep('default.keep', last['keep']);
    const all = [...rules, { id: 'default', match: {}, keep, unit, isAboveFloors: false }];
    for (const [what, list] of Object.entries({ floors, rules })) {
        const ids = list.map(({ id }) => id);
        const twice = ids.find((id, i) => ids.indexOf(id) !== i);
        if (twice !== undefined)
            reading.fault(what, `has "${twice}" twice`);
    }
    if (rules.some(({ id }) => id === 'default'))
        reading.fault('rules', 'none can be called "default"');
    if (reading.faults.length === 0)
        for (const fault of contradictions(all, floors))
            reading.faults.push(fault);
    if (reading.faults.length > 0)
        throw new PolicyFault(reading.faults);
    return new RetentionPolicy(name, ageFrom, all, floors);
}
/** Rules that keep what they match for a shorter time than a floor that may match the same. */
function* contradictions(rules, floors) {
    for (const rule of rules) {
        if (rule.isAboveFloors)
            continue;
        for (const floor of floors)
            if (mayMeet(rule.match, floor.match) && isSurelyShorter(rule.keep, floor.keep))
                yield `the rule "${rule.id}" keeps events for a shorter time than the floor "${floor.id}"`;
    }
}
function mayMeet(one, other) {
    return MATCHED.every((name) => {
        const [a, b] = [one[name], other[name]];
        if (a === undefined || b === undefined || WITH_PREFIXES.includes(name))
            return true;
        return a.some((value) => b.includes(value));
    });
}
/** Whether one is over before the other wherever they begin. */
function isSurelyShorter(one, other) {
    if (one === undefined)
        return false;
    if (other === undefined)
        return true;
    const most = one.months * LONGEST_MONTH + one.days;
    const least = other.months * SHORTEST_MONTH + other.days;
    const isShorter = one.months <= other.months && one.days <= other.days;
    return (isShorter && (one.months < other.months || one.days < other.days)) || most < least;
}
function matches(match, facts) {
    return MATCHED.every((name) => {
        const wanted = match[name];
        if (wanted === undefined)
            return true;
        const value = facts[name];
        if (value === undefined)
            return false;
        return wanted.some((each) => WITH_PREFIXES.includes(name) && each.endsWith('*')
            ? value.startsWith(each.slice(0, -1))
            : value === each);
    });
}
/** `until 2027-01-01`, or `for ever`. */
export function untilText(until) {
    return until === Infinity ? 'for ever' : `until ${new Date(until).toISOString().slice(0, 10)}`;
}
function after(from, keep) {
    if (keep === undefined)
        return undefined;
    const begun = new Date(from);
    const day = begun.getUTCDate();
    const moved = new Date(from);
    moved.setUTCDate(1);
    moved.setUTCMonth(moved.getUTCMonth() + keep.months);
    const last = new Date(Date.UTC(moved.getUTCFullYear(), moved.getUTCMonth() + 1, 0)).getUTCDate();
    moved.setUTCDate(Math.min(day, last));
    return moved.getTime() + keep.days * DAY_MS;
}
/** Reads JSON that someone wrote, and collects what is wrong with it. */
class Reading {
    faults = [];
    fault(at, what) {
        this.faults.push(at === '' ? what : `${at}: ${what}`);
    }
    object(at, value, members) {
        if (typeof value !== 'object' || value === null || Array.isArray(value)) {
            this.fault(at, 'has to be an object');
            return {};
        }
        for (const name of Object.keys(value))
            if (!members.includes(name))
                this.fault(at === '' ? name : `${at}.${name}`, 'is not known');
        return value;
    }
    list(at, value = []) {
        if (Array.isArray(value))
            return value;
        this.fault(at, 'has to be a list');
        return [];
    }
    text(at, value) {
        if (typeof value === 'string' && value !== '' && value.length <= 256)
            return value;
        this.fault(at, 'has to be a text of 1 to 256 characters');
        return '';
    }
    word(at, value, words, otherwise) {
        if (value === undefined)
            return otherwise;
        const found = words.find((word) => word === value);
        if (found === undefined)
            this.fault(at, `has to be one of ${words.join(', ')}`);
        return found ?? otherwise;
    }
    floor(at, value) {
        const id = typeof value['id'] === 'string' && ID.test(value['id']) ? value['id'] : '';
        if (id === '')
            this.fault(`${at}.id`, 'has to be 1 to 64 characters of A-Z a-z 0-9 . _ -');
        const match = value['match'] === undefined ? {} : this.match(`${at}.match`, value['match']);
        return { id, match, keep: this.keep(`${at}.keep`, value['keep']) };
    }
    match(at, value) {
        const read = this.object(at, value, MATCHED);
        const match = {};
        for (const name of MATCHED) {
            if (read[name] === undefined)
                continue;
            const values = this.list(`${at}.${name}`, read[name]);
            if (values.length === 0)
                this.fault(`${at}.${name}`, 'names nothing');
            const texts = values.map((each, i) => this.text(`${at}.${name}[${i}]`, each));
            const kinds = EVENT_KINDS;
            for (const text of texts)
                if (name === 'kind' && !kinds.includes(text))
                    this.fault(`${at}.${name}`, `${JSON.stringify(text)} is none of ${kinds.join(', ')}`);
            match[name] = texts;
        }
        return match;
    }
    keep(at, value) {
        if (value === 'forever')
            return undefined;
        const [, years, months, days] = (typeof value === 'string' && DURATION.exec(value)) || [];
        if (years === undefined && months === undefined && days === undefined) {
            this.fault(at, 'has to be a time such as P10Y, P6M or P30D, or "forever"');
            return undefined;
        }
        return { months: 12 * Number(years ?? 0) + Number(months ?? 0), days: Number(days ?? 0) };
    }
}
//# sourceMappingURL=retention-policy.js.map