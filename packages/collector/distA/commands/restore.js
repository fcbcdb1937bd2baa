/** `collector restore`: copies a back-up to a new data directory, and proves it before it counts as one. */
import path from 'node:path';
import { Command } from 'commander';
import { DirectoryUnfit, readState } from '../backup/backup.js';
import { Restoration } from '../backup/restoration.js';
import { counted } from '../quantity.js';
import { exists, nodeFiles } from '../files.js';
import { eventsOf, takenBy } from '../privacy/actions.js';
import { KeysUnfit, KeyWriter, keysOnDisk, } from '../privacy/key-directory.js';
import { KekFault, kekFault } from '../privacy/key-encryption-key.js';
import { SequenceSet } from '../privacy/sequence-set.js';
import { exposureOf } from '../store/directory-lock.js';
import { keyDatabasePath } from '../store/open-keys.js';
import { noteKeyPlaces } from '../store/key-places.js';
import { openStore } from '../store/open-to-read.js';
import { systemCode } from '../system-code.js';
import { beginAccess } from './access-log.js';
import { assertApart, isNoRoom, real, copyKeys } from './backup.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { collect, keysFrom, rotationsIn, logKey } from './verify/trusted-keys.js';
import { holdsLog } from './regular-files.js';
import { printable, printableJson, wrappedFor, ProgressBar } from './terminal.js';
import { verifyLog } from './verify/verification.js';
import { verificationFields, verificationReport } from './verify/verify.js';
const EXAMPLES = `
Examples:
  $ collector restore /mnt/backup/collector --data-dir ./restored --against /mnt/audit/icu.checkpoints --key log.vkey

Copies the back-up to a new or empty directory, and verifies the copy as "collector verify" does. Only then is it moved
into its place. Give the checkpoints and the key that were kept elsewhere: what a back-up says of itself finds damage,
and no forger, and it does not know which events came after it.

A collector that is started on an older state of a log that others hold newer checkpoints of begins a second history.
docs/guide/back-up-and-restore.md, "Restore", says what to do before.

Exit codes: 0 restored and intact, 7 restored, and all that was found is that events are missing at the end of which a
checkpoint given speaks, 3 the back-up is damaged or not the log that was signed, and nothing was restored; 2 the
directory is not empty, or lies within another log's, or the command line is wrong, 6 there is no such back-up, 1 it
could not be written.`;
/** Less is copied before anybody wonders, and fewer events verified. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 200_000;
export function command() {
    return new Command('restore')
        .description('Copy a back-up to a new data directory, and prove that it is the log that was signed.')
        .argument('<directory>', 'the back-up')
        .requiredOption('--data-dir <directory>', 'where to; new or empty')
        .option('--against <path>', 'checkpoints that were kept elsewhere; may be given again', collect)
        .option('--key <vkey>', 'a verifier key of the log that you trust, or a file with one; may be given again', collect)
        .option('--rotations <path>', 'rotation notes of the log; may be given again', collect)
        .option('--encryption-keys <directory>', 'the keys of its payloads, and behind commas their mirrors: what is erased by now is taken out of them')
        .option('--kek <place>', 'what wraps these keys, where it is no file beside them (see collector serve)')
        .option('--json', 'print what was done as one JSON object')
        .addHelpText('after', EXAMPLES)
        .action(async (directory, options) => {
        process.exitCode = await restore(path.resolve(directory), path.resolve(options.dataDir), options);
    });
}
/** @returns the exit code. */
async function restore(directory, to, options) {
    // All that was given is looked at before anything is written.
    const keys = (options.key ?? []).flatMap((key) => keysFrom('--key', key, (text) => logKey(text).vkey));
    const rotations = (options.rotations ?? []).flatMap(rotationsIn);
    const { against = [] } = options;
    const keyPlaces = keyPlacesFrom(options);
    if (keyPlaces !== undefined && keys.length === 0)
        throw usage('--encryption-keys: goes with --key: the actions of a back-up that is forged would destroy keys');
    for (const given of [...against, ...(keyPlaces?.directories ?? [])]) {
        if (!exists(given))
            throw new CommandFailure(`there is no file ${given}`, EXIT.notFound);
    }
    try {
        const state = completed(directory);
        assertApart(to, directory, 'the back-up');
        assertInNoLog(to);
        const restoration = new Restoration(to);
        const given = { against, keys, rotations };
        const job = { directory, to, state, given, keyPlaces, json: options.json === true };
        return await layAndProve(restoration, job);
    }
    catch (error) {
        throw restoreFailure(error, to);
    }
}
function keyPlacesFrom({ encryptionKeys, kek = '' }) {
    if (encryptionKeys === undefined) {
        if (kek !== '')
            throw usage('--kek: goes with --encryption-keys');
        return undefined;
    }
    const fault = kek === '' ? undefined : kekFault(kek);
    if (fault !== undefined)
        throw usage(`--kek: ${fault}`);
    const given = encryptionKeys.split(',').filter((directory) => directory !== '');
    if (given.length === 0)
        throw usage('--encryption-keys: names no directory');
    return { directories: given.map((each) => path.resolve(each)), kek };
}
/**
 * On return the directories of keys open nothing that an action has erased which this log has under a checkpoint, or which is
 * noted beside the keys; and the copy says where they are.
 * @throws CommandFailure when one of them cannot be written.
 */
async function narrow(copy, keyPlaces, { entries, unsigned }) {
    const log = openStore(copy).events;
    const signed = entries - unsigned;
    const own = (log.actions?.().logged ?? []).flatMap(({ said, sequence }) => said.does === 'retire' && sequence <= signed ? said.keys : []);
    try {
        const writer = KeyWriter.open({
            ...{ files: keysOnDisk, places: keyPlaces, ledgerId: log.ledgerId, isNeeded: true },
            onTrouble: (what, error) => {
                throw new CommandFailure(what, EXIT.failure, { cause: error });
            },
        });
        const noted = takenBy(writer.stored.noted());
        const [directory] = await writer.destroy([...own, ...noted]);
        if (directory !== undefined)
            throw new CommandFailure(`the keys in ${directory} cannot be written: nothing was restored`, EXIT.failure);
        await noteKeyPlaces(copy, keyPlaces);
        const there = SequenceSet.ofStretches([{ first: 1, end: entries + 1 }]);
        const since = eventsOf(noted).without(eventsOf(own)).within(there);
        return { takenSince: noted, events: since.size };
    }
    catch (error) {
        if (error instanceof KeysUnfit || error instanceof KekFault)
            throw new CommandFailure(printable(error.message), EXIT.usage, { cause: error });
        throw error;
    }
    finally {
        await log.close();
    }
}
async function layAndProve(restoration, job) {
    let taken = false;
    try {
        await lay(restoration, job);
        let verification = await prove(restoration.copy, job, []);
        let narrowed;
        if (codeOf(verification) !== EXIT.damaged && job.keyPlaces !== undefined) {
            // Only now: what a forger has put into a back-up must destroy no key.
            narrowed = await narrow(restoration.copy, job.keyPlaces, verification);
            // And once more, as the payloads can be opened.
            verification = await prove(restoration.copy, job, narrowed.takenSince);
        }
        const later = laterThan(verification);
        const code = codeOf(verification);
        if (code !== EXIT.damaged) {
            restoration.take();
            taken = true;
        }
        const exposure = taken ? exposureOf(job.to) : undefined;
        if (exposure !== undefined)
            process.stderr.write(`collector: warning: ${printable(exposure)}\n`);
        const print = job.json ? asJson : report;
        process.stdout.write(print(job, { verification, narrowed, restored: taken, later: later.size }));
        return code;
    }
    finally {
        if (!taken)
            restoration.discard();
    }
}
function codeOf(verification) {
    if (verification.findings.intact)
        return EXIT.ok;
    return laterThan(verification).only ? EXIT.partly : EXIT.damaged;
}
async function lay(restoration, { directory, json }) {
    const wanted = !json && process.stderr.isTTY;
    const bar = new ProgressBar({ wanted, unit: 'MiB', per: 1 << 20, from: BAR_FROM_MEBIBYTES, rate: true });
    try {
        await restoration.lay(directory, (file) => copyKeys(directory, file), bar.show);
    }
    finally {
        bar.clear();
    }
}
/** Anyone who restores it gets at all that it holds: that is logged in the access log of the copy. */
async function prove(copy, { directory, state, given, json }, takenSince) {
    const wanted = !json && process.stderr.isTTY;
    const bar = new ProgressBar({ wanted, unit: 'entries', per: 1, from: BAR_FROM_EVENTS, rate: true });
    const filter = { directory, erasures_known_until: state.at ?? undefined };
    const end = beginAccess(copy, { command: 'restore', filter });
    let verification;
    try {
        const own = { ownAccesses: 1, onProgress: bar.show, takenSince };
        verification = await verifyLog({ dataDir: copy, files: nodeFiles, ...given, ...own });
        return verification;
    }
    finally {
        bar.clear();
        end({ events: verification?.events ?? 0, complete: verification !== undefined });
    }
}
/** @throws CommandFailure when there is no back-up. */
function completed(directory) {
    if (!exists(directory))
        throw new CommandFailure(`there is no directory ${directory}`, EXIT.notFound);
    const state = readState(directory);
    if (state === undefined || state.at === null) {
        throw new CommandFailure(`${directory} holds no back-up that was finished`, EXIT.notFound);
    }
    return state;
}
function restoreFailure(error, to) {
    const failure = (message, code) => new CommandFailure(message, code, { cause: error });
    if (isNoRoom(error)) {
        const code = systemCode(error) ?? 'full';
        return failure(`no room is left (${code}); nothing was restored to ${to}`, EXIT.failure);
    }
    if (error instanceof DirectoryUnfit) {
        return failure(printable(error.message), EXIT.usage);
    }
    return error;
}
/** Within a data directory, or a directory of back-ups, files of one log would lie among those of another. */
function assertInNoLog(to) {
    for (let inner = real(to), outer = path.dirname(inner); outer !== inner; outer = path.dirname(inner)) {
        if (holdsLog(outer) || exists(keyDatabasePath(outer)))
            throw usage(`${to} lies within ${outer}, which holds a log or its keys: give a directory outside of it`);
        inner = outer;
    }
}
function laterThan({ checkpoints, entries, findings }) {
    const sizes = checkpoints.roots.filter(({ outside }) => outside).map(({ size }) => size);
    const size = Math.max(...sizes, 0);
    if (size <= entries)
        return { size: undefined, only: false };
    const faults = findings.listed.filter(({ kind }) => kind !== 'note');
    const only = faults.every(({ kind, sequence = 0 }) => kind === 'missing' && sequence > entries);
    return { size, only: only && findings.unlisted === 0 };
}
/** For scripts; the names are a promise. */
function asJson({ to, state }, { verification, narrowed, restored, later }) {
    const told = {
        directory: to,
        restored,
        time: state.at,
        events: verification.events,
        entries: verification.entries,
        newest_checkpoint_given: later ?? null,
        erased_since: narrowed?.events ?? null,
        verified: verificationFields(verification),
    };
    return `${printableJson(JSON.stringify(told, undefined, 2))}\n`;
}
function report(job, { verification, narrowed, restored, later }) {
    const told = (text) => `${wrappedFor(process.stdout, text)}\n`;
    const proof = verificationReport(verification);
    if (!restored)
        return `${proof}\n${told('Nothing was restored: docs/guide/back-up-and-restore.md, "A damaged back-up".')}`;
    const { to, state } = job;
    const paragraphs = [
        `${to} holds ${counted(verification.events, 'event')}. The last completed round of the back-up began at ` +
            `${state.at ?? ''}; what was acknowledged later may be missing.`,
    ];
    if (!exists(path.join(to, 'signing-keys'))) {
        paragraphs.push('The private signing keys were not backed up: bring them back before a collector is started, or name them by ' +
            '--signing-keys.');
    }
    if (verification.unopened > 0) {
        paragraphs.push('Its payloads are encrypted, and no back-up has their keys: start the collector with the mirror of them by ' +
            '--encryption-keys (docs/guide/encryption.md).');
    }
    if (narrowed !== undefined && narrowed.events > 0)
        paragraphs.push(`${counted(narrowed.events, 'event')} of it ${narrowed.events === 1 ? 'was' : 'were'} erased after this back-up, and ` +
            'can be read by no key that was given. A note beside the keys says so, which no key has signed: compare it with the ' +
            'certificates. "collector verify" reports them as unexplained until the first start has taken their erasure into the ' +
            'log.');
    if (narrowed !== undefined || verification.unopened > 0) {
        paragraphs.push(`WARNING: what was erased after ${state.at ?? ''} is in this back-up. Directories of keys that were in use to the end ` +
            'know these erasures, and with them nothing of it can be read. A copy of the keys that is older opens it: start the ' +
            'collector with --no-listen, and erase it again by "collector erase plan --certificate FILE..." with the ' +
            'certificates before anyone reads.');
    }
    if (narrowed !== undefined || verification.unopened > 0)
        paragraphs.push(`Holds and the retention policy are as they were at ${state.at ?? ''}: begin each hold again that came later, and set ` +
            'the policy again, before anything is erased here.');
    const { entries } = verification;
    const warning = later === undefined
        ? 'Before a collector is started on it: docs/guide/back-up-and-restore.md, "Restore".'
        : `WARNING: checkpoints over ${later} entries have left the old log, and this one has ${entries}. So ` +
            `${later - entries} that were there are missing, and a collector started here would sign others in ` +
            'their place. docs/guide/back-up-and-restore.md, "When events are lost", says what to do instead.';
    return `${paragraphs.map(told).join('')}\n${proof}\n${told(warning)}`;
}
//# sourceMappingURL=restore.js.map