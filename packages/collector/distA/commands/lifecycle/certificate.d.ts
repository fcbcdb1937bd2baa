/** The certificate of an erasure: what the log, its keys, the data directory and the erasure record say of it. */
import type { EventKind } from '@clinical-events/protocol';
import { type LeftOut } from '../../privacy/key-directory.js';
import { type ErasureFacts, type LeftEvents, type Person } from './erasure-record.js';
declare const FORMAT = "clinical-events/certificate/v2";
interface Entry {
    readonly sequence: number;
    readonly id: string;
}
/** The names are a promise to programs. All times are RFC 3339, in UTC. */
export interface Certificate {
    readonly format: typeof FORMAT;
    readonly action: string;
    readonly reason: string;
    /** These are of the erasure record, and null without it. */
    readonly case: string | null;
    readonly planner: Person | null;
    readonly applier: Person | null;
    readonly mentions: number | null;
    readonly left: readonly LeftEvents[] | null;
    readonly overridden: ErasureFacts['overridden'] | null;
    readonly set_by_hand: ErasureFacts['setByHand'] | null;
    /** Whether the plan could not open payloads, and how many, where the record has the number. */
    readonly incomplete: boolean;
    readonly unread: number | null;
    /** False where parts of what was ordered were not begun, because a hold began or a policy was set. */
    readonly whole: boolean;
    readonly floors_overridden: boolean;
    /** The action by which the retention policy was set, and the rule of it, where one decided. */
    readonly policy: string | null;
    readonly rule: string | null;
    /** SHA-256 of the plan and of its marks. */
    readonly plan: string | null;
    readonly marks: string | null;
    readonly log: string;
    readonly organisations: readonly string[];
    readonly events: number;
    readonly events_by_kind: Readonly<Partial<Record<EventKind, number>>>;
    readonly runs: number;
    readonly first_received: string | null;
    readonly last_received: string | null;
    /** The entries that order it, and the one that says that it is done. */
    readonly entries: readonly Entry[];
    readonly done_entry: Entry | null;
    /** The newest one, where it covers all of them. */
    readonly checkpoint: {
        readonly size: number;
        readonly root: string;
        readonly cosigned_by: readonly string[];
    } | null;
    /** When this was printed: what it says of places and copies is as of then. */
    readonly printed: string;
    readonly began: string;
    readonly keys_destroyed: string | null;
    /** Directories of keys that cannot be reached now. */
    readonly keys_away: readonly string[];
    /** When the last segment that held encrypted bytes of it was compacted. */
    readonly bytes_removed: string | null;
    /** Events whose encrypted bytes are still in the data directory. */
    readonly bytes_left: {
        readonly full_segments: number;
        readonly live_segment: number;
    };
    /** Copies of keys on record that were made before it was done. */
    readonly copies: readonly {
        readonly made: string;
        readonly until: string;
    }[];
    /** Directories of keys that were taken out of use before it was done, and may still have the keys. */
    readonly left_out: readonly LeftOut[];
    /** When the key was destroyed that wrapped the key files before they were replaced. */
    readonly key_epoch_ended: string | null;
    readonly directories: number;
    readonly key_wrapped_by: string;
    /** The database that has the log; directories, copies and the data directory are then those of this mirror. */
    readonly mirror_of: string | null;
    readonly tool: string;
    /** Of each organisation, whose ids these are. */
    readonly event_ids: Readonly<Record<string, readonly string[]>>;
    /** Of the same events in the same order, by which the entries name them. */
    readonly event_numbers: Readonly<Record<string, readonly number[]>>;
}
/**
 * As it stands now.
 * @param withIds whether it names each event: of an erasure by policy these may be millions.
 * @throws CommandFailure when the log has no such action, or it erases nothing; StoreDamaged.
 */
export declare function certificateOf(dataDir: string, action: string, { withIds }: {
    readonly withIds: boolean;
}): Promise<Certificate>;
/** What `erase plan --certificate` takes from one. */
interface ReadCertificate extends Pick<Certificate, 'log' | 'action'> {
    /** An id is of one event of an organisation: another one may have it too. */
    readonly events: readonly {
        readonly organisation: string;
        readonly id: string;
    }[];
}
/** @param file its name, for errors. @throws CommandFailure for what is not a certificate that names its events. */
export declare function certificateIn(bytes: Buffer, file: string): ReadCertificate;
export {};
