/** What `doctor` says of the tree, its newest checkpoint, the key that signs, the access log, and the sinks. */
import fs from 'node:fs';
import { counted } from '../../quantity.js';
import { exists } from '../../files.js';
import { StateFileDamaged, describe, readCheckpointTrouble, readSinkStates, } from '../../transparency/state-files.js';
import { programFault } from '../../transparency/command-signer.js';
import { readHistory, PrivateKeys, SigningKeyFault, signingProgram, } from '../../transparency/key-files.js';
import { accessLogText } from './access-log-check.js';
import { deniedPath } from '../exit-codes.js';
/** A running collector signs about once a second; an event that waits longer than this is a warning. */
const LATE_MS = 60_000;
export function about(severity, subject, message) {
    return { severity, subject, message };
}
/** @param running whether a collector runs on the directory. @param isMirror others sign its log, and give checkpoints away. */
export function* proofFindings(config, log, running, isMirror) {
    const { dataDir } = config;
    let history;
    try {
        history = readHistory(dataDir);
    }
    catch (error) {
        if (!(error instanceof SigningKeyFault))
            throw error;
        const severity = error.reason === 'no-log' && log.entries === 0 ? 'ok' : 'damage';
        yield about(severity, 'signing key', error.message);
        return;
    }
    if (!isMirror)
        yield keyFinding(config, history);
    yield* checkpointFindings(dataDir, log, running);
    yield* accessLogFindings(log.access);
    if (!isMirror)
        yield* sinkFindings(dataDir, Date.now());
}
/** Of a log in a database. @param dataDir with what is public of it. */
export function* sharedProofFindings(dataDir, log) {
    yield* checkpointFindings(dataDir, log, true, 'delete the rows of tiles, and the next start of a collector');
    yield* accessLogFindings(log.access);
}
function keyFinding({ signingKeys }, { current }) {
    const subject = 'signing key';
    const program = signingProgram(signingKeys);
    if (program !== undefined) {
        const fault = programFault(program);
        if (fault !== undefined)
            return about('warning', subject, `--signing-keys: ${fault}`);
        return about('ok', subject, `signs by ${program}: ${current.vkey}`);
    }
    const keys = new PrivateKeys(signingKeys);
    const file = keys.pathOf(current);
    if (!keys.isThere()) {
        const message = `not in ${signingKeys}/, and without it no collector starts: after a restore bring it back; if a program signs, give doctor the same --signing-keys command:PROGRAM`;
        return about('warning', subject, message);
    }
    if (!exists(file)) {
        const message = `${file} is not there, and without it or a program that signs no collector starts; after a restore bring it back`;
        return about('warning', subject, message);
    }
    const fault = unusable(keys, current);
    if (fault !== undefined)
        return fault;
    const exposure = keys.exposureOf(current);
    if (exposure !== undefined)
        return about('warning', subject, exposure);
    return about('ok', subject, `${file}, for its owner alone`);
}
/** What the next start would say of the private key; undefined when it would sign with it. */
function unusable(keys, current) {
    try {
        keys.read(current);
        return undefined;
    }
    catch (error) {
        const denied = deniedPath(error);
        if (denied !== undefined)
            return about('warning', 'signing key', `${denied} may not be read by this user`);
        if (!(error instanceof Error))
            throw error;
        return about('damage', 'signing key', `${error.message}; no collector starts with it`);
    }
}
function* checkpointFindings(dataDir, log, running, repair = 'remove tree/ while no collector runs, and the next start') {
    const subject = 'checkpoint';
    const { findings, checkpoints, entries } = log;
    // Entries that wait for one are told of below.
    const faults = findings.listed.filter(({ kind, sequence }) => kind.startsWith('checkpoint') && sequence === undefined);
    for (const { message } of faults)
        yield about('damage', subject, message);
    if (checkpoints.newest !== undefined)
        yield waitingFinding(dataDir, checkpoints.newest, log, running);
    else if (faults.length === 0 && entries === 0) {
        // As a first start leaves it that was killed.
        yield about('ok', subject, 'none yet, as of an empty log; the next start signs the first one');
    }
    yield* troubleFindings(dataDir);
    if (checkpoints.newest !== undefined)
        yield treeFinding(findings, repair);
}
/** Whether entries wait for a checkpoint that should have come. */
function waitingFinding(dataDir, { origin, size }, { entries, waiting }, running) {
    const subject = 'checkpoint';
    const said = `over ${counted(size, 'entry', 'entries')}, signed as ${origin}`;
    if (entries <= size)
        return about('ok', subject, said);
    const after = `${counted(entries - size, 'entry', 'entries')} after them`;
    if (!running)
        return about('ok', subject, `${said}; the next start signs ${after}`);
    const since = waiting?.oldest ?? Date.now();
    if (Date.now() - since < LATE_MS)
        return about('ok', subject, `${said}; the next one is due for ${after}`);
    const why = whyUnsigned(freeBytes(dataDir));
    return about('warning', subject, `${said}; ${after} wait since ${new Date(since).toISOString()}: ${why}`);
}
/** Less than this is no room for a checkpoint, nor for the note of why there is none. */
const FULL_BYTES = 1 << 20;
/** @param free bytes on the disk of the data directory. */
export function whyUnsigned(free) {
    if (free >= FULL_BYTES)
        return 'the collector cannot sign, and its log says why';
    return 'the disk is full, and a checkpoint needs room: make some, and the collector signs by itself';
}
function freeBytes(dataDir) {
    const { bavail, bsize } = fs.statfsSync(dataDir);
    return bavail * bsize;
}
/** What the collector that runs, or ran last, has left of why it could make no checkpoint. */
function* troubleFindings(dataDir) {
    const trouble = yield* readable('checkpoint', () => readCheckpointTrouble(dataDir));
    if (trouble === undefined)
        return;
    const { since, reason } = trouble;
    yield about('warning', 'checkpoint', `no checkpoint could be made since ${since}: ${reason}`);
}
/** What a state file says; undefined when it is damaged, which is a finding. */
function* readable(subject, read) {
    try {
        return read();
    }
    catch (error) {
        if (!(error instanceof StateFileDamaged))
            throw error;
        yield about('warning', subject, error.message);
        return undefined;
    }
}
/** The hashes are derived from the events, so nothing about them is damage of what is stored. */
function treeFinding({ listed }, repair) {
    const subject = 'tree';
    if (!listed.some(({ kind, file }) => kind === 'tile_altered' || file === 'tree'))
        return about('ok', subject, 'comes to the root that was signed');
    return about('warning', subject, `does not come to the root that was signed: ${repair} rebuilds it`);
}
function* accessLogFindings(state) {
    const subject = 'access log';
    if (state === undefined)
        return;
    const faults = state.findings.filter(({ kind }) => kind !== 'note');
    for (const { message } of faults)
        yield about('damage', subject, message);
    if (faults.length === 0)
        yield about('ok', subject, accessLogText(state));
    for (const { kind, message } of state.findings) {
        if (kind === 'note')
            yield about('warning', subject, message);
    }
}
function* sinkFindings(dataDir, now) {
    const subject = 'sink';
    const states = yield* readable(subject, () => readSinkStates(dataDir));
    for (const state of states ?? []) {
        const severity = { ok: 'ok', failing: 'warning', forked: 'damage' }[state.state];
        const isOdd = state.also_holds !== undefined || state.lost_at !== undefined;
        yield about(severity === 'ok' && isOdd ? 'warning' : severity, subject, describe(state, now));
    }
    if (states?.length !== 0)
        return;
    const message = 'checkpoints stay on this host, which could rewrite its log unseen: give them away by --checkpoint-sink';
    yield about('warning', subject, message);
}
//# sourceMappingURL=proof-findings.js.map