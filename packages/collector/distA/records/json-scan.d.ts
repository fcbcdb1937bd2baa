/**
 * Where the members of a JSON object stand in its bytes, without making anything of them: for who copies most of it
 * from one place to another. It is known of plain text only; the rest is for JSON.parse.
 *
 * Plain is a text that JSON.stringify would write as it is, but for the spelling of its numbers: no white space
 * between its tokens, no name twice in an object, none that begins with a digit (those come first in JavaScript), no
 * escape where none is needed or in another spelling, and none in a name. So a part of it is the text of that part.
 */
/** A name that is looked for. */
export declare class MemberName {
    readonly text: string;
    readonly bytes: Buffer;
    readonly signature: number;
    constructor(text: string);
}
export declare class JsonScan {
    #private;
    bytes: Buffer;
    /** Forgets all objects, and goes on with other bytes. */
    begin(bytes: Buffer): void;
    /** @returns the object from `from` to `to`, which is JSON; -1 when it is not plain. */
    scan(from: number, to: number): number;
    /** @returns the first member of an object; -1 when it has none. */
    first(object: number): number;
    /** @returns the member behind one of an object; -1 when it is the last. */
    after(member: number, object: number): number;
    /** @returns the member of that name; -1 when there is none. */
    find(object: number, name: MemberName): number;
    isNamed(member: number, { bytes }: MemberName): boolean;
    signature(member: number): number;
    /** Where the value begins. */
    from(member: number): number;
    /** Behind the value. */
    to(member: number): number;
    /** The member whole, with its name. */
    text(member: number): string;
    isObject(member: number): boolean;
    isString(member: number): boolean;
    /** Whether the string, which is the value, has escapes. */
    isEscaped(member: number): boolean;
}
