/**
 * What V8 does not say of a JSON text (RFC 8259). Where it stops being one: V8 names it for some faults only, and for
 * the others the text is quoted, which in a configuration file may be anything. And which names an object holds
 * twice: of those the last is taken in silence.
 */
const SPACE = /[ \t\n\r]*/y;
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
/** Thrown to leave the recursion. */
class Fault extends Error {
    at;
    constructor(at) {
        super('no JSON');
        this.at = at;
    }
}
class Scanner {
    text;
    /** The names that an object holds more than once, each behind those of the objects that it is in: `limits.port`. */
    repeated = new Set();
    #at = 0;
    constructor(text) {
        this.text = text;
    }
    scan() {
        this.#value('');
        if (this.#at < this.text.length)
            throw new Fault(this.#at);
    }
    #value(path) {
        this.#skip(SPACE);
        if (this.#take('{'))
            this.#members(path);
        else if (this.#take('['))
            this.#elements(path);
        else if (!this.#skip(SCALAR))
            throw new Fault(this.#at);
        this.#skip(SPACE);
    }
    #members(path) {
        const names = new Set();
        this.#skip(SPACE);
        if (this.#take('}'))
            return;
        do {
            this.#skip(SPACE);
            const from = this.#at;
            if (this.text[from] !== '"' || !this.#skip(SCALAR))
                throw new Fault(from);
            const name = JSON.parse(this.text.slice(from, this.#at));
            if (names.has(name))
                this.repeated.add(path + name);
            names.add(name);
            this.#skip(SPACE);
            if (!this.#take(':'))
                throw new Fault(this.#at);
            this.#value(`${path}${name}.`);
        } while (this.#take(','));
        if (!this.#take('}'))
            throw new Fault(this.#at);
    }
    #elements(path) {
        this.#skip(SPACE);
        if (this.#take(']'))
            return;
        do
            this.#value(path);
        while (this.#take(','));
        if (!this.#take(']'))
            throw new Fault(this.#at);
    }
    #take(letter) {
        if (this.text[this.#at] !== letter)
            return false;
        this.#at++;
        return true;
    }
    #skip(shape) {
        shape.lastIndex = this.#at;
        if (!shape.test(this.text))
            return false;
        this.#at = shape.lastIndex;
        return true;
    }
}
/** @returns line and column, both from 1, of the first value or sign that is none; undefined when the text is JSON. */
export function jsonFaultAt(text) {
    try {
        new Scanner(text).scan();
        return undefined;
    }
    catch (fault) {
        if (!(fault instanceof Fault))
            throw fault;
        const before = text.slice(0, fault.at).split('\n');
        return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
    }
}
/** @param text JSON. @returns the names that one of its objects holds more than once, with their paths, each once. */
export function repeatedNames(text) {
    const scanner = new Scanner(text);
    scanner.scan();
    return [...scanner.repeated];
}
//# sourceMappingURL=json-fault.js.map