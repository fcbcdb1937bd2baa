import { recordOf } from '../assemble.js';
import { ParsingReader } from '../run-event.js';
export function textFormat(parts) {
    return {
        reader: () => new ParsingReader(),
        builder: () => new TextBuilder(parts),
        joiner: () => new TextJoiner(parts),
    };
}
/** One document a line. */
export function lines(document) {
    return textFormat({ head: '', between: '\n', tail: '\n', empty: '', text: document });
}
/** In UTF-16 units. */
const ENCODE_FROM = 4 << 20;
class TextBuilder {
    parts;
    #text = '';
    #encoded = [];
    #records = 0;
    constructor(parts) {
        this.parts = parts;
    }
    /** @throws RangeError that names the record when its text is longer than a string can be. */
    add(run) {
        if (this.#records > 0)
            this.#text += this.parts.between;
        this.#text += this.#textOf(recordOf(run));
        this.#records++;
        // A string has a greatest length, which some large runs together could reach.
        if (this.#text.length >= ENCODE_FROM)
            this.#encode();
    }
    take() {
        this.#encode();
        // Not of Node's pool, which belongs to no piece alone and cannot be posted.
        const bytes = new Uint8Array(this.#encoded.reduce((sum, { length }) => sum + length, 0));
        let at = 0;
        for (const part of this.#encoded) {
            bytes.set(part, at);
            at += part.length;
        }
        const records = this.#records;
        this.#encoded = [];
        this.#records = 0;
        return { bytes, records };
    }
    #textOf(record) {
        try {
            return this.parts.text(record);
        }
        catch (error) {
            if (!(error instanceof RangeError))
                throw error;
            const { record_id, events } = record.metadata;
            throw new RangeError(`the record ${record_id} of ${events.length} events is too large for one text: export it as Parquet, or the others without it`, { cause: error });
        }
    }
    #encode() {
        if (this.#text === '')
            return;
        this.#encoded.push(Buffer.from(this.#text));
        this.#text = '';
    }
}
class TextJoiner {
    parts;
    #begun = false;
    constructor(parts) {
        this.parts = parts;
    }
    join({ bytes, records }) {
        if (records === 0)
            return bytes;
        const before = this.#begun ? this.parts.between : this.parts.head;
        this.#begun = true;
        return before === '' ? bytes : Buffer.concat([Buffer.from(before), bytes]);
    }
    finish() {
        return Buffer.from(this.#begun ? this.parts.tail : this.parts.empty);
    }
}
//# sourceMappingURL=file-format.js.map