import { MemberName } from '../json-scan.js';
import type { RunMetadata } from '../assemble.js';
import { type Sent, type Text } from '../run-event.js';
/** What columns are made of: a record is this, and so is an assembled run. */
export interface ColumnSource {
    readonly model: Sent | null;
    readonly user: Sent | null;
    readonly target: Sent | null;
    readonly inputs: Sent | null;
    readonly metadata: RunMetadata & {
        readonly events: readonly unknown[];
    };
}
interface Column<Type extends string, Value, Of> {
    readonly name: string;
    readonly type: Type;
    /** Undefined where the record has none. */
    readonly of: (source: Of) => Value | undefined;
}
/** A column of values that `of` finds in a record. */
type ValueColumn<Of> = Column<'text', Text, Of> | Column<'number', number, Of> | Column<'count', number, Of>
/** By an RFC 3339 date-time that the schemas or {@link timeIn} have accepted. */
 | Column<'time', string, Of> | Column<'texts', readonly string[], Of>;
export type RecordColumn<Of = ColumnSource> = ValueColumn<Of>;
export declare function textIn(value: unknown): string | undefined;
/** A date-time in a field that the protocol does not check. */
export declare function timeIn(value: unknown): string | undefined;
/** Milliseconds since 1970 UTC, rounded down. */
export declare function millisecondsOf(time: string): number;
export declare const NAMES: {
    model_id: MemberName;
    model_version: MemberName;
    caller_id: MemberName;
    target_id: MemberName;
    input_uri: MemberName;
    prompt: MemberName;
    caller_type: MemberName;
    target_type: MemberName;
};
/** The text in a member; undefined where there is none. */
export declare function textOf(sent: Sent | null | undefined, name: MemberName): Text | undefined;
export declare function stringOf(text: Text | undefined): string | undefined;
/**
 * As the start says; where it names a model and no version, the model that answered. A call that failed, or that ended
 * without an answer, counts against what was asked for.
 */
export declare function modelVersionOf({ model, metadata: { call } }: ColumnSource): Text | undefined;
export declare const RECORD_COLUMNS: readonly RecordColumn[];
/** The number in a member, also one that was sent as a text, as the nearest double; undefined where there is none. */
export declare function memberNumber(sent: Sent | undefined, name: MemberName): number | undefined;
/** A text as one cell of a row. */
export declare function csvCell(text: string): string;
export {};
