/** What the main thread and those that make records say to each other. Nothing of a payload but finished pieces. */
import { beganBySender } from '../../catalogue/catalogue.js';
export class PieceMaker {
    dayBy;
    #builder;
    #done = [];
    #day = '';
    #records = 0;
    #events = 0;
    #replaced = 0;
    constructor(format, dayBy) {
        this.dayBy = dayBy;
        this.#builder = format.builder();
    }
    add(run) {
        const day = dayOf(run, this.dayBy);
        if (day !== this.#day)
            this.#end();
        this.#day = day;
        this.#builder.add(run);
        this.#records++;
        this.#events += run.metadata.events.length;
        if (run.metadata.completeness.replaced_text.length > 0)
            this.#replaced++;
    }
    /** All pieces of what was added since the last time, in order. */
    take() {
        this.#end();
        const done = this.#done;
        this.#done = [];
        return done;
    }
    #end() {
        if (this.#records === 0)
            return;
        this.#done.push({
            ...this.#builder.take(),
            day: this.#day,
            events: this.#events,
            replaced: this.#replaced,
        });
        this.#records = 0;
        this.#events = 0;
        this.#replaced = 0;
    }
}
/** The UTC day on which a record began by a clock; that of receipt where no year of four digits has it. */
function dayOf({ metadata, start }, clock) {
    if (clock === undefined)
        return '';
    const days = clock === 'sender' ? [new Date(beganBySender(metadata.events, start)).toISOString()] : [];
    const began = days.find((day) => /^\d{4}-/.test(day) && !day.startsWith('0000'));
    return (began ?? metadata.first_received_at).slice(0, 'YYYY-MM-DD'.length);
}
//# sourceMappingURL=job.js.map