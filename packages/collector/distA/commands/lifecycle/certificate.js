import { eventsOf } from '../../privacy/actions.js';
import { hasKeys, keyInventory, keysOnDisk } from '../../privacy/key-directory.js';
import { BEGINNING } from '../../store/contract/events.js';
import { readKeyPlaces } from '../../store/key-places.js';
import { segmentsOf } from '../../store/open-to-audit.js';
import { openStore } from '../../store/open-to-read.js';
import { isNoId, uuidText } from '../../store/text.js';
import { readMirrorNote } from '../../transparency/state-files.js';
import { CommandFailure, EXIT, usage } from '../exit-codes.js';
import { version } from '../typed.js';
import { cosigners, newestCheckpoint } from '../verify/log-checkpoints.js';
import { erasureRecordOf } from './erasure-record.js';
const FORMAT = 'clinical-events/certificate/v2';
/** Of a certificate that is read: seven million events. */
const MOST_BYTES = 256 << 20;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Events in the log that are passed rather than looked up between two that are wanted. */
const MOST_BETWEEN = 4096;
/**
 * As it stands now.
 * @param withIds whether it names each event: of an erasure by policy these may be millions.
 * @throws CommandFailure when the log has no such action, or it erases nothing; StoreDamaged.
 */
export async function certificateOf(dataDir, action, { withIds }) {
    const { events: log, tree } = openStore(dataDir);
    try {
        const actions = log.actions?.();
        const retires = actions?.partsIn(action) ?? [];
        const [said] = retires;
        if (actions === undefined || said === undefined)
            throw new CommandFailure(`no action ${action} erases anything in ${dataDir}`, EXIT.notFound);
        const named = actions.logged.filter((each) => each.said.action === action);
        const parts = named.filter((each) => each.said.does === 'retire');
        const done = named.find((each) => each.said.does === 'done');
        const { record } = said;
        const facts = record === undefined ? undefined : erasureRecordOf(dataDir, action, record);
        const { case: reference = null, planner = null, applier = null, mentions = null } = facts ?? {};
        const { left = null, overridden = null, unread = null, setByHand = null } = facts ?? {};
        const sequences = eventsOf(retires.flatMap(({ keys }) => keys));
        const newest = await newestCheckpoint(dataDir, tree);
        const { size = 0, root = '' } = newest?.newest.checkpoint ?? {};
        const since = done === undefined ? [] : actions.logged.slice(actions.logged.indexOf(done));
        return {
            ...{ format: FORMAT, action, reason: said.reason, log: log.ledgerId, tool: `collector ${version()}` },
            ...{ case: reference, planner, applier, mentions, left, overridden, unread, set_by_hand: setByHand },
            ...{ incomplete: said.incomplete === true, whole: actions.isWhole(action) },
            floors_overridden: said.override === true,
            ...{ policy: said.policy ?? null, rule: said.rule ?? null },
            ...{ plan: said.plan ?? null, marks: said.marks ?? null },
            ...{ entries: parts.map(entryOf), done_entry: done === undefined ? null : entryOf(done) },
            checkpoint: newest === undefined || size < (named.at(-1)?.sequence ?? Infinity)
                ? null
                : {
                    ...{ size, root: Buffer.from(root).toString('base64') },
                    cosigned_by: cosigners(newest.newest.note, newest.history),
                },
            printed: new Date().toISOString(),
            ...{ began: iso(parts[0]?.at) ?? '', keys_destroyed: iso(done?.at) },
            ...(await erasedEvents(log, dataDir, sequences, withIds)),
            ...keysOf(dataDir, done?.at),
            key_epoch_ended: iso(since.find((each) => each.said.does === 'keys')?.at),
            mirror_of: readMirrorNote(dataDir)?.store ?? null,
        };
    }
    finally {
        await tree.close();
        await log.close();
    }
}
function entryOf({ sequence, entryId }) {
    return { sequence, id: entryId };
}
function iso(time) {
    return time === undefined ? null : new Date(time).toISOString();
}
/** @param doneAt until when copies could take the keys along. */
function keysOf(dataDir, doneAt = Infinity) {
    const places = readKeyPlaces(dataDir);
    const { directories, kek, leftOut = [] } = places;
    const keys = hasKeys(keysOnDisk, places) ? keyInventory(keysOnDisk, places) : undefined;
    return {
        ...{ directories: directories.length, key_wrapped_by: kek || 'a file beside the keys' },
        keys_away: directories.filter((each) => keys?.directories.some(({ directory, isThere }) => isThere && directory === each) !== true),
        copies: (keys?.copies ?? []).filter(({ made }) => Date.parse(made) <= doneAt),
        left_out: leftOut.filter(({ since }) => Date.parse(since) <= doneAt),
    };
}
/** What their envelopes say, which stay, and where encrypted bytes are left. */
async function erasedEvents(log, dataDir, sequences, withIds) {
    const segments = segmentsOf(dataDir, sequences);
    const kinds = new Map();
    const ids = new Map();
    const numbers = new Map();
    const runs = new Set();
    const left = { full_segments: 0, live_segment: 0 };
    let [first, last] = [Infinity, -Infinity];
    for await (const entry of entriesOf(log, sequences)) {
        const { kind, organisation, receivedAt, source, sequence } = entry;
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
        const [known, numbered] = [ids.get(organisation) ?? [], numbers.get(organisation) ?? []];
        ids.set(organisation, known);
        numbers.set(organisation, numbered);
        if (withIds) {
            known.push(uuidText(source, entry.eventIdAt));
            numbered.push(sequence);
        }
        if (!isNoId(source, entry.runIdAt))
            runs.add(`${uuidText(source, entry.runIdAt)} ${organisation}`);
        [first, last] = [Math.min(first, receivedAt), Math.max(last, receivedAt)];
        if (entry.bucket !== undefined)
            left[sequence >= segments.liveFrom ? 'live_segment' : 'full_segments']++;
    }
    return {
        ...{ organisations: [...ids.keys()].sort(), events: sequences.size, runs: runs.size },
        events_by_kind: Object.fromEntries(kinds),
        ...{ first_received: first > last ? null : iso(first), last_received: first > last ? null : iso(last) },
        bytes_left: left,
        bytes_removed: left.full_segments + left.live_segment > 0 ? null : iso(segments.compactedAt),
        event_ids: withIds ? Object.fromEntries(ids) : {},
        event_numbers: withIds ? Object.fromEntries(numbers) : {},
    };
}
async function* entriesOf(log, sequences) {
    let from = BEGINNING;
    for (const { first, end } of sequences.windows(MOST_BETWEEN)) {
        const pass = log.pass({ sequence: first, at: from.at }, { through: end - 1 });
        let next = await pass.next();
        for (; !next.done; next = await pass.next())
            for (const entry of next.value)
                if (!entry.isOwn && sequences.has(entry.sequence))
                    yield entry;
        from = next.value;
    }
}
/** @param file its name, for errors. @throws CommandFailure for what is not a certificate that names its events. */
export function certificateIn(bytes, file) {
    if (bytes.length > MOST_BYTES)
        throw usage(`${file}: a certificate has at most 256 MiB`);
    let read;
    try {
        read = Object(JSON.parse(bytes.toString()));
    }
    catch {
        throw usage(`${file}: it is not JSON, as collector erase --certificate prints it with --json`);
    }
    const { format, log, action, events, event_ids: ids } = read;
    if (format === 'clinical-events/certificate/v1')
        throw usage(`${file}: a certificate of this version does not name its events: plan them by their runs or ids`);
    const isText = (value) => typeof value === 'string';
    const isId = (value) => isText(value) && UUID.test(value);
    if (format !== FORMAT || !isText(log) || !/^[0-9a-f]{32}$/.test(log) || !isId(action))
        throw usage(`${file}: it is not a certificate of an erasure in the form ${FORMAT}`);
    const named = Object.entries(Object(ids)).flatMap(([organisation, each]) => (Array.isArray(each) ? each : [each]).map((id) => ({ organisation, id })));
    if (!named.every(({ id }) => isId(id)) || named.length === 0 || named.length !== events)
        throw usage(`${file}: it does not name the ids of its events`);
    return { log, action, events: named };
}
//# sourceMappingURL=certificate.js.map