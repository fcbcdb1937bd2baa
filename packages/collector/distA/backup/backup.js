/**
 * A back-up: a data directory without what is derived, and without private keys unless they are asked for. Beside it
 * stands `backup.json`, which says whose it is and what the last completed round holds.
 *
 * The order of a round keeps the directory whole wherever the round ends. First the access log: the log's heads of it
 * speak of lines that are there. Then the segments, then keys and older checkpoints, and the newest checkpoint last.
 */
import fs from 'node:fs';
import path from 'node:path';
import { parseCheckpoint, parseNote } from '@clinical-events/protocol/verify';
import { exists, nodeFiles } from '../files.js';
import { LogDiffers } from '../store/contract/copy.js';
/** The directory holds something else than this back-up, or is not the empty one that a restoration needs. */
export class DirectoryUnfit extends Error {
    name = 'DirectoryUnfit';
}
const STATE = 'backup.json';
const LATEST = 'checkpoints/latest';
const FRESH = ['lost+found', 'lock'];
/**
 * @returns undefined when the directory is new or empty.
 * @throws DirectoryUnfit
 */
export function readState(directory) {
    if (!exists(directory))
        return undefined;
    if (!fs.statSync(directory).isDirectory())
        throw new DirectoryUnfit(`${directory} is no directory`);
    if (!exists(path.join(directory, STATE))) {
        const other = nodeFiles.list(directory).find((name) => !FRESH.includes(name));
        if (other === undefined)
            return undefined;
        throw new DirectoryUnfit(`${directory} holds ${other}, and is no back-up of a log`);
    }
    assertNoLinks(directory);
    const file = path.join(directory, STATE);
    let value;
    try {
        if (fs.statSync(file).size > MOST_STATE_BYTES)
            throw new Error('it is too long');
        value = JSON.parse(fs.readFileSync(file, 'utf8'));
    }
    catch (error) {
        throw new DirectoryUnfit(`${file} cannot be read`, { cause: error });
    }
    if (isState(value))
        return value;
    throw new DirectoryUnfit(`${file} was not written by this version of the collector: give a new directory`);
}
const MOST_STATE_BYTES = 1 << 16;
function isState(value) {
    if (typeof value !== 'object' || value === null)
        return false;
    const { backup, origin, ledger_id: id, at, growing } = value;
    const isTextOrNull = (each) => each === null || typeof each === 'string';
    return (backup === 2 &&
        typeof origin === 'string' &&
        typeof id === 'string' &&
        isTextOrNull(at) &&
        isTextOrNull(growing));
}
/** A link in a back-up could have the log itself written over, or be vouched for with bytes from elsewhere. */
export function assertNoLinks(directory) {
    for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
        const file = path.join(directory, entry.name);
        if (entry.isDirectory()) {
            if (entry.name !== 'lost+found')
                assertNoLinks(file);
        }
        else if (!entry.isFile()) {
            throw new DirectoryUnfit(`${file} is neither a file nor a directory, and was not opened`);
        }
    }
}
/**
 * The newest checkpoint of the back-up, of which nothing is verified; undefined when there is none yet.
 * @throws LogDiffers when it cannot be read.
 */
export function checkpointThere(directory) {
    const file = path.join(directory, LATEST);
    if (!exists(file))
        return undefined;
    try {
        return parseCheckpoint(parseNote(fs.readFileSync(file, 'utf8')).text);
    }
    catch (error) {
        throw new LogDiffers(`${LATEST} there is no checkpoint`, { cause: error });
    }
}
/**
 * Nothing is written.
 * @throws DirectoryUnfit when it is that of another log; LogDiffers when it has more, or others, than the log.
 */
export function assertGoesOn(directory, log) {
    const state = readState(directory);
    const there = checkpointThere(directory);
    if (state !== undefined && state.origin !== log.origin) {
        throw new DirectoryUnfit(`${directory} holds the back-up of another log, ${state.origin}`);
    }
    if (state !== undefined && state.ledger_id !== log.log.ledgerId) {
        throw new LogDiffers('it has another ledger id');
    }
    const { size, root } = log.checkpoint;
    if (there === undefined)
        return;
    if (there.size > size) {
        throw new LogDiffers(`it is signed over ${size} entries, and what is there over ${there.size}`);
    }
    if (there.size === size && !Buffer.from(there.root).equals(Buffer.from(root))) {
        throw new LogDiffers(`another checkpoint over ${size} entries is there`);
    }
}
/**
 * One round. On return the directory holds all of the log, on stable storage; whatever ends it before, what the
 * directory held before is whole. The caller holds its lock.
 * @param at when the round began.
 */
export async function backUp(directory, from, at, onProgress) {
    assertGoesOn(directory, from);
    const before = readState(directory) ?? newState(from);
    if (before.at === null)
        await put(directory, STATE, stateBytes(before));
    const accessLogKept = copyAccessLog(directory, from, at);
    const copied = from.log.copyTo(directory, before.growing ?? undefined, onProgress);
    for (const [file, bytes] of from.files)
        await put(directory, file, bytes);
    await copyPrivate(directory, from);
    await put(directory, LATEST, Buffer.from(from.note));
    const { events, entries, lastReceivedAt, growing } = from.log;
    const state = {
        ...{ ...before, at, events, entries, growing },
        signed_entries: from.checkpoint.size,
        last_received_at: lastReceivedAt === undefined ? null : new Date(lastReceivedAt).toISOString(),
    };
    await put(directory, STATE, stateBytes(state));
    return { ...copied, state, accessLogKept };
}
function newState({ origin, log }) {
    return {
        ...{ backup: 2, origin, ledger_id: log.ledgerId, at: null, events: 0, entries: 0 },
        ...{ signed_entries: 0, last_received_at: null, growing: null },
    };
}
function stateBytes(state) {
    return Buffer.from(`${JSON.stringify(state, undefined, 2)}\n`);
}
async function copyPrivate(directory, from) {
    const draft = path.join(directory, 'keys.draft');
    nodeFiles.remove(draft);
    if (await from.copyKeys(draft)) {
        nodeFiles.rename(draft, path.join(directory, 'keys.db'));
        nodeFiles.syncDirectory(directory);
    }
    for (const [file, bytes] of from.signingKeys)
        await put(directory, file, bytes);
}
/** Whole and on stable storage, or as it was. */
async function put(directory, file, bytes) {
    const target = path.join(directory, file);
    if (exists(target) && fs.readFileSync(target).equals(bytes))
        return;
    nodeFiles.makeDirectory(path.dirname(target));
    await nodeFiles.replace(target, bytes);
}
/**
 * Each line has the hash of the one before it in it. So what is there is a beginning of the log's own when its last
 * whole line stands at the same place in that.
 * @returns where what was there is kept, when it is none.
 */
function copyAccessLog(directory, from, at) {
    const source = from.accessLog();
    if (source === undefined)
        return undefined;
    const file = path.join(directory, 'access.log');
    if (!exists(file)) {
        fill(file, source, 0);
        return undefined;
    }
    const held = wholeLines(file);
    if (held.end <= source.bytes && held.last.equals(tailOf(source, held))) {
        fill(file, source, held.end);
        return undefined;
    }
    const kept = `${file}.until-${at.replaceAll(':', '')}`;
    const draft = `${file}.draft`;
    nodeFiles.remove(draft);
    fill(draft, source, 0);
    if (!exists(kept))
        fs.linkSync(file, kept);
    nodeFiles.rename(draft, file);
    nodeFiles.syncDirectory(directory);
    return kept;
}
function wholeLines(file) {
    const bytes = fs.readFileSync(file);
    const end = bytes.lastIndexOf(0x0a) + 1;
    const begin = end === 0 ? 0 : bytes.lastIndexOf(0x0a, end - 2) + 1;
    return { end, last: bytes.subarray(begin, end) };
}
function tailOf(source, { end, last }) {
    const pieces = [];
    let at = 0;
    for (const piece of source.pieces()) {
        const [first, behind] = [Math.max(0, end - last.length - at), Math.min(piece.length, end - at)];
        if (first < behind)
            pieces.push(Buffer.from(piece.subarray(first, behind)));
        if ((at += piece.length) >= end)
            break;
    }
    return Buffer.concat(pieces);
}
function fill(file, source, from) {
    const fd = nodeFiles.open(file, exists(file) ? 'r+' : 'wx+');
    try {
        let at = 0;
        for (const piece of source.pieces()) {
            const rest = piece.subarray(Math.max(0, from - at));
            if (rest.length > 0)
                nodeFiles.write(fd, rest, rest.length, at + piece.length - rest.length);
            at += piece.length;
        }
        nodeFiles.truncate(fd, at);
        nodeFiles.datasync(fd);
    }
    finally {
        nodeFiles.close(fd);
    }
    nodeFiles.syncDirectory(path.dirname(file));
}
//# sourceMappingURL=backup.js.map