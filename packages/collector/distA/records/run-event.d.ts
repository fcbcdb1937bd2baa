/** An event as a record is made of it: what the collector says of it, and what the sender said. */
import { type BaseEvent, type EventKind } from '@clinical-events/protocol';
import type { EventFacts, ReadEvents, StoredEvent } from '../store/contract/events.js';
import { JsonScan, MemberName } from './json-scan.js';
export interface RunEvent<Body extends EventBody = BaseEvent> {
    readonly event: EventFacts;
    /** Undefined when the payload is encrypted or retired. */
    readonly body: Body | undefined;
    /** Whether half a surrogate pair in a text was replaced by U+FFFD. */
    readonly isReplaced?: boolean | undefined;
}
/** How events become what a record is made of. */
export interface EventReader<Body extends EventBody> {
    /** Begins a batch. The events of the one before stay valid until the next begins. */
    begin(read: ReadEvents): void;
    /** @param index as in the places that were asked for. */
    event(index: number): RunEvent<Body>;
}
/** Reads events as objects, with exact numbers (raw-json.ts). */
export declare class ParsingReader implements EventReader<BaseEvent> {
    #private;
    begin(read: ReadEvents): void;
    event(index: number): RunEvent;
}
/** Reads a stored event. Nothing of the result is a view, so it outlives the scan that yielded the event. */
export declare function runEventOf(stored: StoredEvent): RunEvent;
/** A text that stands in other bytes, in UTF-8. */
export interface TextSlice {
    readonly bytes: Buffer;
    readonly from: number;
    readonly to: number;
}
export type Text = string | TextSlice;
/** An object of a payload. */
export declare class ScannedObject {
    private readonly scan;
    private readonly entry;
    constructor(scan: JsonScan, entry: number);
    has(name: MemberName): boolean;
    /** The text in a member; undefined when there is none, or what it has is no text. */
    text(name: MemberName): Text | undefined;
    /** What a member has, its numbers as doubles; undefined when there is none. */
    value(name: MemberName): unknown;
    /** The object as it was sent. */
    json(): TextSlice;
}
/** An object of a payload, however it was read. */
export type Sent = ScannedObject | Readonly<Record<string, unknown>>;
/** The fields at the top of every event that the protocol names. */
export declare const BASE_FIELDS: readonly ["event_id", "run_id", "parent_event_id", "timestamp", "protocol_version", "system_metadata"];
/** Those besides that it names for each kind: all objects. Another kind's payload is not among them. */
export declare const PAYLOADS: {
    readonly 'inference-start': readonly ["model_instance", "user_identity", "target_identity", "inputs"];
    readonly 'internal-artifact': readonly ["artifact"];
    readonly 'human-output': readonly ["output"];
    readonly outcome: readonly ["outcome"];
    readonly 'user-feedback': readonly ["feedback"];
};
export type PayloadName = (typeof PAYLOADS)[EventKind][number];
/** What a scanned event says. */
export declare class ScannedBody {
    timestamp: string;
    parent_event_id: string | null;
    protocol_version: string;
    system_metadata: ScannedObject | undefined;
    model_instance: ScannedObject | undefined;
    user_identity: ScannedObject | undefined;
    target_identity: ScannedObject | undefined;
    inputs: ScannedObject | undefined;
    artifact: ScannedObject | undefined;
    output: ScannedObject | undefined;
    outcome: ScannedObject | undefined;
    feedback: ScannedObject | undefined;
    /** The fields that the protocol does not name, as the JSON of an object; undefined when there are none. */
    extra: string | undefined;
}
export type EventBody = BaseEvent | ScannedBody;
/** @returns the object of that name in an event; undefined when there is none. */
export declare function sentIn(body: EventBody, name: PayloadName | 'system_metadata'): Sent | undefined;
/** What a member of an object has; its numbers may be of either form (raw-json.ts). */
export declare function memberIn(sent: Sent | undefined, name: MemberName): unknown;
/** Whether an object has such a member, of whatever value. */
export declare function hasMember(sent: Sent | undefined, name: MemberName): boolean;
export declare class ScanningReader implements EventReader<EventBody> {
    #private;
    begin(read: ReadEvents): void;
    event(index: number): RunEvent<EventBody>;
}
