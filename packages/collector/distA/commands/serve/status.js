/** What the parts of a running collector tell the management listener, gathered while they come into being. */
import fs from 'node:fs';
import path from 'node:path';
import { LedgerCounters } from '../../ledger/ledger-counters.js';
import { readBackupNote, readCheckpointTrouble, readVerifyResult, } from '../../transparency/state-files.js';
import { checkpointOf } from '../../transparency/sink-queue.js';
import { exposureOf } from '../../store/directory-lock.js';
import { isGone, liesElsewhere } from '../../transparency/key-files.js';
import { ownName, typedByName, version } from '../typed.js';
/** Small files are looked at so often at most, in milliseconds, however often someone asks. */
const FILES_EVERY_MS = 1000;
export class RunningStatus {
    version = version();
    command = ownName();
    typed = typedByName;
    startedAt = Date.now();
    ingest;
    /** Set once there is one. */
    thread;
    listener;
    follower;
    #phase = 'starting';
    #checkpoint;
    /** What the ledger's thread said last, in a list of one; none before it said anything. */
    #trouble;
    #alarms = new Set();
    #keyLiesElsewhere;
    #parts;
    #counters;
    #files;
    constructor(parts) {
        this.#parts = parts;
        const { ingest } = parts;
        this.ingest = {
            counters: ingest.counters,
            get queue() {
                return ingest.queue;
            },
            get storage() {
                return ingest.storage;
            },
        };
        this.#counters = new LedgerCounters(parts.counters);
        const { dataDir, keyPlace } = parts;
        this.#files = new Recent(() => ({
            trouble: unlessUnreadable(() => readCheckpointTrouble(dataDir)),
            verify: unlessUnreadable(() => verifyStateOf(dataDir)),
            backup: unlessUnreadable(() => backupStateOf(dataDir)),
            // Written once, when the log begins or is restored.
            began: unlessUnreadable(() => fs.statSync(path.join(dataDir, 'checkpoints', 'origin.vkey')).mtimeMs),
            exposed: unlessUnreadable(() => exposureOf(dataDir)) !== undefined,
            keyGone: unlessUnreadable(() => this.#isGone(keyPlace)) ?? false,
        }));
    }
    phase() {
        return this.#phase;
    }
    entered(phase) {
        this.#phase = phase;
    }
    /** A checkpoint is the newest one now. The first may have been signed by the collector before. */
    noteCheckpoint(note) {
        const { size: entries } = checkpointOf(note);
        const signedBefore = this.#checkpoint === undefined
            ? unlessUnreadable(() => fs.statSync(path.join(this.#parts.dataDir, 'checkpoints', 'latest')).mtimeMs)
            : undefined;
        this.#checkpoint = { entries, at: signedBefore ?? Date.now() };
    }
    /** As {@link checkpointTrouble}, from who makes them: a full disk keeps it out of the file. */
    noteCheckpointTrouble(trouble) {
        this.#trouble = [trouble];
    }
    ledger() {
        return this.#counters.read();
    }
    askThread() {
        this.thread?.ask();
    }
    listens() {
        return this.#parts.listens;
    }
    connections() {
        return this.listener?.connections ?? 0;
    }
    ledgerLivedAt() {
        return this.thread?.livedAt;
    }
    index() {
        return this.thread?.index;
    }
    privacy() {
        return this.thread?.privacy;
    }
    runs() {
        return this.follower?.tally;
    }
    catalogueTroubleSince() {
        return this.follower?.troubleSince;
    }
    keys() {
        return this.#parts.keys.uses();
    }
    keysCurrent() {
        return this.#parts.keys.current;
    }
    sinks() {
        return this.#parts.publisher.sinks;
    }
    checkpoint() {
        return this.#checkpoint;
    }
    checkpointTrouble() {
        return this.#trouble === undefined ? this.#files.get().trouble : this.#trouble[0];
    }
    /** As {@link alarms}; it is so until the process ends. */
    noteAlarm(about) {
        this.#alarms.add(about);
    }
    alarms() {
        return this.#alarms;
    }
    certificates() {
        const tls = this.listener?.tls;
        return tls === undefined ? [] : [{ name: 'ingest', notAfter: tls.certificateExpiresAt }];
    }
    lastVerify() {
        return this.#files.get().verify;
    }
    lastBackup() {
        return this.#files.get().backup;
    }
    backupMaxAgeMs() {
        return this.#parts.backupMaxAgeMs();
    }
    logBeganAt() {
        return this.#files.get().began;
    }
    tokenInClear() {
        return this.#parts.tokenInClear;
    }
    exposed() {
        return this.#files.get().exposed;
    }
    clockSteps() {
        return this.#parts.clockSteps();
    }
    droppedLines() {
        return this.#parts.droppedLines();
    }
    #isGone(place) {
        // Before there is a checkpoint, the key is being made.
        return this.#checkpoint !== undefined && this.#liesElsewhere(place) === false && isGone(place);
    }
    /** Where the keys lie is asked until it is known, and no longer: that file system may hang later. */
    #liesElsewhere(place) {
        return (this.#keyLiesElsewhere ??= liesElsewhere(place));
    }
    keyGone() {
        return this.#files.get().keyGone;
    }
    async lookAtDisk() {
        const { bsize, bavail, blocks } = await fs.promises.statfs(this.#parts.dataDir);
        return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
    }
}
function verifyStateOf(dataDir) {
    const result = readVerifyResult(dataDir);
    return result === undefined ? undefined : { ...result, at: Date.parse(result.at) };
}
function backupStateOf(dataDir) {
    const note = readBackupNote(dataDir);
    return note === undefined ? undefined : { ...note, at: Date.parse(note.at) };
}
/** A value that is read again when it was asked for a while after the last time. */
class Recent {
    read;
    #value;
    #until = 0;
    constructor(read) {
        this.read = read;
    }
    get() {
        if (this.#value === undefined || performance.now() >= this.#until) {
            this.#value = this.read();
            this.#until = performance.now() + FILES_EVERY_MS;
        }
        return this.#value;
    }
}
/** What cannot be read is told elsewhere, by the part whose it is. */
function unlessUnreadable(read) {
    try {
        return read();
    }
    catch {
        return undefined;
    }
}
//# sourceMappingURL=status.js.map