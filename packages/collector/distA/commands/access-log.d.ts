import type { AccessLogStore } from '../store/contract/access-log.js';
import { type Actor } from './actor.js';
export interface Access {
    /** The command that reads or acts. */
    readonly command: string;
    /** What it was asked for: names of kinds, runs, times; never the contents of an event. Persons are left out of the line. */
    readonly filter: Readonly<Record<string, unknown>>;
    /** Whether it changes something. Then it is never done without a line, also not on a read-only file system. */
    readonly isAct?: boolean | undefined;
    /** The name of who acts, as the command was given it. It never takes the place of a login user's. */
    readonly by?: string;
    /** Why, as the command was given it. */
    readonly reason?: string;
}
/** How an access ended. */
export interface AccessEnd {
    /** How many events it gave out. */
    readonly events: number;
    /** False when it ended before it had given out all that it was asked for. */
    readonly complete: boolean;
    /** What it has made, where that is known only then: ids and numbers, never a secret. */
    readonly done?: Readonly<Record<string, unknown>>;
}
/**
 * On return the beginning is logged on stable storage.
 * @returns logs the end in the same way.
 * @throws {@link CommandFailure} that names the file: then nothing may be given out.
 * @throws {@link ReadOnly} when nothing at all can be written there, because the file system is read-only.
 */
export declare function beginAccess(dataDirectory: string, access: Access): (end: AccessEnd) => void;
/** As much of a line as says that the collector has written it. */
export interface AccessLine {
    /** An instant, RFC 3339 in UTC. */
    readonly at: string;
    readonly state: 'begun' | 'ended';
    /** The id that the two lines of an access have. */
    readonly reading?: string;
    readonly command?: string;
    /** Lines of versions before have none. */
    readonly actor?: Actor;
    readonly reason?: string;
    /** Of the viewer: whether the person used rights that are kept for emergencies. */
    readonly break_glass?: boolean;
    readonly filter?: Readonly<Record<string, unknown>>;
    /** Of the process; null for one that the system has no name for. */
    readonly uid: number;
    readonly user: string | null;
    readonly login_uid?: number;
    readonly sudo_user?: string;
}
/** No line that a command appends is as long. */
export declare const LONGEST_LINE: number;
/**
 * What a line of the log is. `torn`: the beginning of one, as a crash or a full disk leaves it, or nothing. `foreign`:
 * no command has written it.
 * @param bytes without the line feed; undefined for one that is too long.
 */
export declare function lineIn(bytes: Buffer | undefined): AccessLine | 'torn' | 'foreign';
/** A line that says who made a plan of erasure, and when. */
export type PlanLine = AccessLine & {
    readonly actor: Actor;
};
/**
 * The line with which `erase plan` began to write a plan. It is believed as it stands in the file; `verify` finds out
 * whether lines were changed since they were under a head.
 * @param sha256 of the plan, 64 hexadecimal digits.
 * @returns the first one; undefined when there is none.
 */
export declare function findPlan(dataDirectory: string, sha256: string): Promise<PlanLine | undefined>;
/** What has been given out so far. The command keeps it up to date. */
export interface GivenOut {
    events: number;
    /** True once all that was asked for is given out or done. */
    complete: boolean;
    /** What an act has made. */
    done?: AccessEnd['done'];
}
/**
 * On return the beginning is logged, so that events may be given out. The end is logged when the process ends.
 * @throws CommandFailure when the access cannot be logged; but a snapshot that cannot be written is read all the
 * same, with a warning. A directory that a collector holds is none, however this process has it mounted. An act is
 * never done without a line.
 */
export declare function logAccess(dataDir: string, access: Access): GivenOut;
/** An access to a log in a database. */
export interface SharedAccess extends GivenOut {
    /** Logs the end, once. To be called before the log is closed, however the command has ended. */
    end(): Promise<void>;
}
/**
 * On return the beginning is logged in the database, so that events may be given out.
 * @throws CommandFailure when it cannot be logged.
 */
export declare function logSharedAccess(log: AccessLogStore, access: Access): Promise<SharedAccess>;
/**
 * Does an act between its two lines, in the data directory or in the database that has the log.
 * @param act it says itself when it is complete.
 * @throws CommandFailure when the beginning cannot be logged: then nothing was done.
 */
export declare function logAct<Result>(place: string | AccessLogStore, access: Access, act: (logged: GivenOut) => Result | Promise<Result>): Promise<Result>;
