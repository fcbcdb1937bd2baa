/**
 * Legal holds. The log has of each that it began, its id and the SHA-256 of its record, which is a file beside the log,
 * `lifecycle/holds/<id>.json`: what it is called, and what it holds. Subjects stand there encrypted (name-cipher.ts).
 */
import { hash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../../files.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
/** Kinds of records of which an action of the log has a SHA-256; each has a directory. Back-ups have them. */
export const RECORDS = ['holds', 'erasures'];
export function recordFile(dataDir, kind, action) {
    return path.join(dataDir, 'lifecycle', kind, `${action}.json`);
}
/** So that whoever has the log alone cannot guess what a record holds and try it. */
export function newSalt() {
    return randomBytes(16).toString('hex');
}
/** On return the record is on stable storage. @returns it, and what the log is to say of it. */
export async function keepRecord(dataDir, record) {
    const whole = {
        ...{ format: 'clinical-events/hold/v1', ...record },
        ...{ begun: new Date().toISOString(), salt: newSalt() },
    };
    const text = `${JSON.stringify(whole, undefined, 2)}\n`;
    await writeRecord(dataDir, 'holds', record.action, text);
    return { record: hash('sha256', text), text };
}
/** For a mirror: on return the record of a hold that was begun on another is here too. @returns false for one that is not it. */
export async function takeRecord(dataDir, { action, record }, text) {
    if (recordIn(text, record) === undefined)
        return false;
    await writeRecord(dataDir, 'holds', action, text);
    return true;
}
/** On return the record is on stable storage, for its owner alone. */
export async function writeRecord(dataDir, kind, action, text) {
    const file = recordFile(dataDir, kind, action);
    nodeFiles.makeDirectory(path.dirname(file));
    await nodeFiles.replace(file, Buffer.from(text));
}
/** @param record what the log says of it. @returns undefined when it is not there as it was written. */
export function recordOf(dataDir, action, record) {
    const file = recordFile(dataDir, 'holds', action);
    return exists(file) ? recordIn(fs.readFileSync(file, 'utf8'), record) : undefined;
}
/** @param record what the log says of it. @returns undefined for a text that is not it. */
export function recordIn(text, record) {
    return hash('sha256', text) === record ? JSON.parse(text) : undefined;
}
/**
 * The records of the holds that are not over.
 * @throws CommandFailure when one is missing or was changed: what it holds is not known, so that nothing may be erased.
 */
export function holdsOf(dataDir, actions) {
    return [...actions.holds].map(([action, record]) => {
        const read = recordOf(dataDir, action, record);
        if (read !== undefined)
            return read;
        const file = recordFile(dataDir, 'holds', action);
        const what = exists(file) ? 'was changed' : 'is missing';
        throw new CommandFailure(`the record of hold ${action} ${what} (${file}), and nothing can be erased while it is not known what it holds: bring ` +
            'it back from a back-up, or release the hold by its id', EXIT.refused);
    });
}
/** Decides by which holds an event is held. */
export class Holds {
    records;
    names;
    #subjects;
    #runs;
    #met;
    #sealed = new Map();
    /** @param names by which the subjects of holds are encrypted. */
    constructor(records, names) {
        this.records = records;
        this.names = names;
        this.#subjects = records.map(({ subjects }) => new Set(subjects));
        this.#runs = records.map(({ runs, met }) => new Set([...runs, ...(met?.runs ?? [])]));
        this.#met = records.map(metBy);
    }
    /**
     * The names of the holds on an event of a run. A hold on a run holds what is nested in it, and one on a person every run of
     * which a start names the person: a further start of its sender takes nothing out of it.
     */
    on(run, sequence) {
        if (this.records.length === 0)
            return [];
        const { chain } = run;
        return this.records
            .filter(({ organisations }, i) => organisations.includes(run.organisation) ||
            this.#met[i]?.has(sequence) === true ||
            chain.some((each) => each.hangsOn.some((id) => this.#runs[i]?.has(id))) ||
            chain.some(({ persons }) => persons.some((id) => this.#subjects[i]?.has(this.#sealedOf(id)))))
            .map(({ name }) => name);
    }
    #sealedOf(person) {
        let sealed = this.#sealed.get(person);
        if (sealed === undefined) {
            sealed = this.names?.seal(person).toString('base64') ?? person;
            if (this.#sealed.size > MOST_KEPT)
                this.#sealed.clear();
            this.#sealed.set(person, sealed);
        }
        return sealed;
    }
}
const MOST_KEPT = 100_000;
/** The sequences of the events that a hold met when it began. */
export function metBy({ met }) {
    return SequenceSet.fromText(met?.events ?? '') ?? SequenceSet.EMPTY;
}
//# sourceMappingURL=holds.js.map