/** The five endpoints of a collector, as a sender sees them: one request, one answer. */
import { type EventKind } from '@clinical-events/protocol';
import { type Answer } from './connection.js';
export declare class EventEndpoint {
    #private;
    /** What {@link ask} was answered, by code or status: the collector counts these as refusals. */
    readonly asked: Map<string, number>;
    /** @param base http or https; the paths of the endpoints are added to its own. */
    constructor(base: URL, key: string | undefined);
    /**
     * As many connections are open as there are events under way.
     * @throws the system's error when no answer came; whether the event is stored is then not known.
     */
    post(kind: EventKind, body: Uint8Array): Promise<Answer>;
    /**
     * Asks whether the key may send events of a kind, without sending one: media types are looked at after keys and
     * before bodies, and this one is never taken.
     * @returns the answer to that: 415 when it may.
     */
    ask(kind: EventKind): Promise<Answer>;
    /** @returns the first answer to {@link ask} that is none to a sender who may send that kind. */
    firstRefusal(): Promise<{
        readonly kind: EventKind;
        readonly answer: Answer;
    } | undefined>;
    /** What is under way fails. */
    close(): void;
}
