/** What commands ask of the log of a data directory: files in `lifecycle/inbox`, on stable storage when they are there. */
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../../files.js';
import { systemCode } from '../../system-code.js';
import { KEPT_ANSWER_MS } from '../contract/requests.js';
/** It is renamed when it is begun, and removed when it is withdrawn: the system lets one of the two have the name. */
const REQUEST = /^([0-9a-f-]{36})\.(?:request|begun)\.json$/;
export class Inbox {
    files;
    #directory;
    constructor(dataDirectory, files = nodeFiles) {
        this.files = files;
        this.#directory = path.join(dataDirectory, 'lifecycle', 'inbox');
    }
    async lay(id, request) {
        this.files.makeDirectory(this.#directory);
        await this.files.replace(this.#fileOf(id, 'request'), Buffer.from(request));
    }
    waiting() {
        if (!exists(this.#directory))
            return Promise.resolve([]);
        const names = fs.readdirSync(this.#directory).sort();
        for (const name of names)
            this.#clear(name);
        const found = names.flatMap((name) => {
            const id = REQUEST.exec(name)?.[1];
            const file = path.join(this.#directory, name);
            const request = id === undefined ? undefined : ifThere(() => fs.readFileSync(file, 'utf8'));
            return id === undefined || request === undefined ? [] : [{ id, request }];
        });
        return Promise.resolve(found);
    }
    begin(id) {
        const begun = this.#fileOf(id, 'begun');
        ifThere(() => this.files.rename(this.#fileOf(id, 'request'), begun));
        return Promise.resolve(exists(begun));
    }
    withdraw(id) {
        const isWithdrawn = ifThere(() => {
            fs.unlinkSync(this.#fileOf(id, 'request'));
            // After a power failure it would be there again.
            this.files.syncDirectory(this.#directory);
            return true;
        });
        return Promise.resolve(isWithdrawn ?? false);
    }
    take(id) {
        for (const state of ['request', 'begun'])
            this.files.remove(this.#fileOf(id, state));
        return Promise.resolve();
    }
    async answer(id, answer) {
        if (exists(this.#directory))
            await this.files.replace(this.#fileOf(id, 'answer'), Buffer.from(answer));
    }
    answerTo(id) {
        const file = this.#fileOf(id, 'answer');
        return Promise.resolve(exists(file) ? fs.readFileSync(file, 'utf8') : undefined);
    }
    /** Of an answer that who asked had the time to take. */
    #clear(name) {
        if (!name.endsWith('.answer.json'))
            return;
        const file = path.join(this.#directory, name);
        const { mtimeMs = Date.now() } = fs.statSync(file, { throwIfNoEntry: false }) ?? {};
        if (Date.now() - mtimeMs > KEPT_ANSWER_MS)
            fs.rmSync(file, { force: true });
    }
    #fileOf(id, state) {
        return path.join(this.#directory, `${id}.${state}.json`);
    }
}
/** Undefined where the file is not there: another process has removed or renamed it. */
function ifThere(act) {
    try {
        return act();
    }
    catch (error) {
        if (systemCode(error) !== 'ENOENT')
            throw error;
        return undefined;
    }
}
//# sourceMappingURL=inbox.js.map