import { systemCode } from '../../system-code.js';
const REASON_OF_CODE = {
    ...{ ENOSPC: 'disk_full', EDQUOT: 'disk_full', EROFS: 'read_only' },
    ...{ EACCES: 'permission_denied', EPERM: 'permission_denied' },
};
/** Nothing of the batch was stored. `cause` says why (ENOSPC, for one). */
export class NotCommitted extends Error {
    name = 'NotCommitted';
    reason;
    constructor(message, { cause, reason } = {}) {
        super(message, { cause });
        this.reason = reason ?? REASON_OF_CODE[systemCode(cause) ?? ''] ?? 'write_failed';
    }
}
/** No key of payloads can be made durable, so that no event may be. */
export function keysUnwritable(cause) {
    return new NotCommitted('the keys of payloads cannot be written', { cause, reason: 'keys_unwritable' });
}
/** The batch may be stored or not: a flush to the disk failed. */
export class CommitUnknown extends Error {
    name = 'CommitUnknown';
}
/**
 * What was stored may be gone from the log, by another hand. The lock is held, so the directory is still this one's.
 */
export class LogChanged extends CommitUnknown {
    name = 'LogChanged';
}
/** The log does not hold what was once written there. */
export class StoreDamaged extends Error {
    place;
    name = 'StoreDamaged';
    /** @param place in the driver's words, for a person; the sequence that is due there, where one is. */
    constructor(place, reason) {
        const due = place.sequence === undefined ? '' : `, where event ${place.sequence} is due`;
        super(`${reason} in ${place.where}${due}`);
        this.place = place;
    }
}
/*
 * Reading the log: the contract that every driver keeps, and all that readers of events know of one.
 *
 * Batches are asynchronous, and what is in them is not: at 300,000 events a second a promise for each would cost more
 * than the event. Between two batches the event loop has its turn.
 */
export const ID_BYTES = 16;
export const BEGINNING = { sequence: 1, at: 0 };
/** For a reader that knows a sequence alone. */
export function cursorAt(sequence) {
    return { sequence, at: 0 };
}
/** Behind an entry that was passed. */
export function cursorBehind({ sequence, at }) {
    return { sequence: sequence + 1, at };
}
//# sourceMappingURL=events.js.map