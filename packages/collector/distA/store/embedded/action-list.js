/**
 * Where the actions of a log stand (privacy/actions.ts), so that no start and no reader passes all of it for them. Derived,
 * and as old as the id index beside it: of each action sequence (8) and address (8), little-endian, in `index/actions`,
 * behind a first entry with sequence 0 and the address up to which the list lacks none.
 *
 * An action is noted, durably, before it is written, and the id index never covers more than that first entry says. So an
 * entry may be of an action that was never written: what stands at its place says so. A log without a list, with one that
 * is older than the id index, or with one that names a place which cannot be read, is passed whole: a hold that was
 * forgotten would hold nothing.
 */
import path from 'node:path';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { exists, readFrom, replaceNow } from '../../files.js';
import { Actions } from '../../privacy/actions.js';
import { publishedTo } from './id-index/index-state.js';
import { frameKind, framePayloadLength, frameReceivedAt, frameSequence } from './frame.js';
const ENTRY_BYTES = 16;
function listOf(dataDirectory) {
    return path.join(dataDirectory, 'index', 'actions');
}
/** Adds what the frame of an entry of the log's own says to `actions`, if that is an action. @param size of the frame. */
export function noteAction(actions, buffer, offset, size) {
    if (frameKind(buffer, offset) !== ENTRY_KINDS.lifecycleAction)
        return;
    const end = offset + size;
    const body = buffer.subarray(end - framePayloadLength(buffer, offset), end);
    actions.add(frameSequence(buffer, offset), frameReceivedAt(buffer, offset), body);
}
/** The actions of a log, as a reader knows them: what has come since is looked for each time. */
export class NotedActions {
    dataDirectory;
    files;
    frameAt;
    frames;
    #actions = new Actions();
    /** So many of the list are read; 0 before it is believed. */
    #bytes = 0;
    /** Of a list that is not believed, how large it is; -1 where there is none. The log was passed for it. */
    #passedFor;
    constructor(dataDirectory, files, 
    /** The frame at an address, checked; undefined when none is there. */
    frameAt, 
    /** All frames of a log that has no list. */
    frames) {
        this.dataDirectory = dataDirectory;
        this.files = files;
        this.frameAt = frameAt;
        this.frames = frames;
    }
    get() {
        const file = listOf(this.dataDirectory);
        const list = this.files.look(file);
        if (list === undefined)
            this.#bytes = 0;
        if (this.#bytes === 0) {
            const size = list?.size ?? -1;
            if (size === this.#passedFor)
                return this.#actions;
            this.#actions = new Actions();
            // The id index first: it never covers more than the list does.
            const covered = publishedTo(this.dataDirectory);
            if (list === undefined || coveredBy(readFrom(this.files, file)) < covered) {
                this.#passedFor = size;
                for (const frame of this.frames())
                    noteAction(this.#actions, frame.buffer, frame.offset, frame.size);
                return this.#actions;
            }
            this.#bytes = ENTRY_BYTES;
        }
        if (list === undefined || list.size <= this.#bytes)
            return this.#actions;
        for (const { sequence, address } of entriesOf(readFrom(this.files, file, this.#bytes))) {
            const frame = this.frameAt(address);
            const isIt = frame !== undefined && frameSequence(frame, 0) === sequence;
            if (isIt)
                noteAction(this.#actions, frame, 0, frame.length);
            // One that is just being written is read the next time, and all behind it.
            else
                break;
            this.#bytes += ENTRY_BYTES;
        }
        return this.#actions;
    }
}
/** The address up to which a list lacks no action; -1 where it does not say. */
function coveredBy(list) {
    return list.length >= ENTRY_BYTES && list.readBigUInt64LE() === 0n ? Number(list.readBigUInt64LE(8)) : -1;
}
function entryOf(sequence, address) {
    const entry = Buffer.alloc(ENTRY_BYTES);
    entry.writeBigUInt64LE(BigInt(sequence));
    entry.writeBigUInt64LE(BigInt(address), 8);
    return entry;
}
/** What a list says behind its first entry, in its order; `bytes` are the entry as it stands there. */
function* entriesOf(list) {
    for (let at = 0; at + ENTRY_BYTES <= list.length; at += ENTRY_BYTES) {
        const bytes = list.subarray(at, at + ENTRY_BYTES);
        yield { sequence: Number(bytes.readBigUInt64LE()), address: Number(bytes.readBigUInt64LE(8)), bytes };
    }
}
/** For the one process that writes the log. */
export class ActionList {
    files;
    actions = new Actions();
    #file;
    #entries = [];
    /** It lacks no action before this address. */
    #covered = 0;
    /** Whether the file has what is known. */
    #isSettled = true;
    /** @param dataDirectory whose id index is open. */
    constructor(dataDirectory, files) {
        this.files = files;
        this.#file = listOf(dataDirectory);
    }
    /**
     * On return all that the list says of the log is known, and it says nothing else.
     * @param frameAt the frame at an address before `end`, whole; undefined when none is there.
     * @param indexed up to where the id index covers the log.
     * @returns false when there is none that can be believed: then nothing is known, and what the id index covers is to be
     *   taken in before `settle`.
     */
    load(frameAt, end, indexed) {
        this.#isSettled = false;
        this.#covered = indexed;
        if (!exists(this.#file))
            return false;
        const list = readFrom(this.files, this.#file);
        if (coveredBy(list) < indexed)
            return false;
        const entries = [...entriesOf(list.subarray(ENTRY_BYTES))].filter(({ address }) => address < end);
        const frames = entries.map(({ address }) => frameAt(address));
        if (frames.includes(undefined))
            return false;
        this.#isSettled = true;
        for (const [i, { sequence, bytes }] of entries.entries()) {
            const frame = frames[i];
            if (frame === undefined || frameSequence(frame, 0) !== sequence)
                continue;
            if (frameKind(frame, 0) !== ENTRY_KINDS.lifecycleAction)
                continue;
            noteAction(this.actions, frame, 0, frame.length);
            this.#entries.push(bytes);
        }
        if ((this.#entries.length + 1) * ENTRY_BYTES !== list.length)
            this.#write();
        return true;
    }
    /** On return the list says, on stable storage, that it lacks no action before `address`: the id index may cover that. */
    cover(address) {
        const before = this.#covered;
        this.#covered = Math.max(before, address);
        try {
            if (this.#isSettled)
                this.#write();
        }
        catch (error) {
            this.#covered = before;
            throw error;
        }
    }
    /** On return the list says all that is known. */
    settle() {
        if (!this.#isSettled)
            this.#write();
        this.#isSettled = true;
    }
    /** Takes in an entry of the log that the id index does not cover: one that is an action is noted, on return or by `settle`. */
    take(buffer, offset, size, address) {
        if (frameKind(buffer, offset) !== ENTRY_KINDS.lifecycleAction)
            return;
        const sequence = frameSequence(buffer, offset);
        if (this.#entries.some((entry) => entry.readBigUInt64LE() === BigInt(sequence)))
            return;
        this.note(sequence, address);
        noteAction(this.actions, buffer, offset, size);
    }
    /** On return the list has it, on stable storage. */
    note(sequence, address) {
        const entry = entryOf(sequence, address);
        // What was noted for a place that another entry got is not one of them.
        const before = this.#entries;
        this.#entries = [...before.filter((each) => each.readBigUInt64LE(8) < BigInt(address)), entry];
        try {
            if (this.#isSettled)
                this.#write();
        }
        catch (error) {
            this.#entries = before;
            throw error;
        }
    }
    #write() {
        replaceNow(this.files, this.#file, Buffer.concat([entryOf(0, this.#covered), ...this.#entries]));
    }
}
//# sourceMappingURL=action-list.js.map