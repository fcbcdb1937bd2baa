/** The members are a promise to programs (docs/INTEGRITY.md, "The access log"). */
export interface Actor {
    /** Where the name is from: this operating system, a provider of OpenID Connect, a proxy. */
    readonly kind: (typeof KINDS)[number];
    /** The user who logged in where there is one, otherwise a stated name, the user who called sudo, or the process's. */
    readonly name: string;
    /** Of a person of the viewer; on the host it is the rights of the system's user that count. */
    readonly role?: string;
    /** Whether the system knows by a login that it is this one. */
    readonly proven?: boolean;
    /** The name that was stated beside a proven one. */
    readonly stated?: string;
}
/** A user whose name is known. */
export interface ActingUser {
    readonly name: string;
    /** Whether the system knows by a login that it is this one; false of a name that was only stated. */
    readonly isProven: boolean;
}
declare const KINDS: readonly ["os", "oidc", "proxy"];
/** The user who logged in; undefined where the system knows of no login, as in a container. */
export declare function actingUser(): ActingUser | undefined;
/**
 * What a line says of who acts: `actor`, and beside it what that was concluded from.
 * @param stated the name that the command was given.
 */
export declare function whoActs(stated?: string): {
    readonly actor: Actor;
} & Readonly<Record<string, unknown>>;
export declare function isActor(value: unknown): value is Actor;
export {};
