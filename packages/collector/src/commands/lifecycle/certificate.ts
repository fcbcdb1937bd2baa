/** The certificate of an erasure: what the log, its keys, the data directory and the erasure record say of it. */
import type { EventKind } from '@clinical-events/protocol';
import { eventsOf, type LoggedAction } from '../../privacy/actions.js';
import { hasKeys, keyInventory, type LeftOut } from '../../privacy/key-directories.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import { BEGINNING, type Cursor, type EventLog, type PassedEntry } from '../../store/contract/events.js';
import { readKeyPlaces } from '../../store/key-places.js';
import { compactedAt } from '../../store/open-to-audit.js';
import { openStore } from '../../store/open-to-read.js';
import { isNoId, uuidText } from '../../store/text.js';
import { readMirrorNote } from '../../tree/state-files.js';
import { type FollowingMirror, mirrorsOf } from '../access-lines.js';
import { CommandFailure, EXIT, usage } from '../exit-codes.js';
import { version } from '../typed.js';
import { cosigners, newestCheckpoint } from '../verify/log-checkpoints.js';
import { type ErasureFacts, erasureRecordOf, type LeftEvents, type Person } from './erasure-record.js';
import { instant } from '../../quantity.js';

const FORMAT = 'clinical-events/certificate/v2';
/** Of a certificate that is read: seven million events. */
const MOST_BYTES = 256 << 20;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Events in the log that are passed rather than looked up between two that are wanted. */
const MOST_BETWEEN = 4096;

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
  /** When the last encrypted bytes of it were removed from the data directory; null while it has some, and if it had none. */
  readonly bytes_removed: string | null;
  /** Events whose encrypted bytes are still in the data directory. */
  readonly bytes_left: number;
  /** Copies of keys on record that were made before it was done. */
  readonly copies: readonly { readonly made: string; readonly until: string }[];
  /** Directories of keys that were taken out of use before it was done, and may still have the keys. */
  readonly left_out: readonly LeftOut[];
  /** When the key was destroyed that wrapped the key files before they were replaced. */
  readonly key_epoch_ended: string | null;
  readonly directories: number;
  readonly key_wrapped_by: string;
  /** The database that has the log; directories, copies and the data directory are then those of this mirror. */
  readonly mirror_of: string | null;
  /** Of such a log: which mirrors have destroyed their keys and replaced their key of names, as they reported. */
  readonly mirrors: readonly FollowingMirror[];
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
export async function certificateOf(
  dataDir: string,
  action: string,
  { withIds }: { readonly withIds: boolean },
): Promise<Certificate> {
  const { events: log, tree } = openStore(dataDir);
  try {
    const actions = log.actions?.();
    const erases = actions?.partsIn(action) ?? [];
    const [said] = erases;
    if (actions === undefined || said === undefined)
      throw new CommandFailure(`no action ${action} erases anything in ${dataDir}`, EXIT.notFound);
    const named = actions.logged.filter((each) => each.said.action === action);
    const parts = named.filter((each) => each.said.does === 'erase');
    const done = named.find((each) => each.said.does === 'done');
    const { record } = said;
    const facts = record === undefined ? undefined : erasureRecordOf(dataDir, action, record);
    const { case: reference = null, planner = null, applier = null, mentions = null } = facts ?? {};
    const { left = null, overridden = null, unread = null, setByHand = null } = facts ?? {};
    const sequences = eventsOf(erases.flatMap(({ keys }) => keys));
    const erased = await erasedEvents(log, sequences, withIds);
    const newest = await newestCheckpoint(dataDir, tree);
    const mirror_of = readMirrorNote(dataDir)?.store ?? null;
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
      checkpoint:
        newest === undefined || size < (named.at(-1)?.sequence ?? Infinity)
          ? null
          : {
              ...{ size, root: Buffer.from(root).toString('base64') },
              cosigned_by: cosigners(newest.newest.note, newest.history),
            },
      printed: new Date().toISOString(),
      ...{ began: instant(parts[0]?.at) ?? '', keys_destroyed: instant(done?.at) },
      ...erased,
      bytes_removed:
        erased.bytes_left > 0
          ? null
          : instant(compactedAt(dataDir, { sequence: parts.at(-1)?.sequence ?? 0, erased: sequences })),
      ...keysOf(dataDir, done?.at),
      key_epoch_ended: instant(since.find((each) => each.said.does === 'rotate')?.at),
      mirror_of,
      mirrors: mirror_of === null ? [] : await mirrorsOf(dataDir, action),
    };
  } finally {
    await tree.close();
    await log.close();
  }
}

function entryOf({ sequence, entryId }: LoggedAction): Entry {
  return { sequence, id: entryId };
}

/** @param doneAt until when copies could take the keys along. */
function keysOf(dataDir: string, doneAt = Infinity) {
  const places = readKeyPlaces(dataDir);
  const { directories, kek, leftOut = [] } = places;
  const keys = hasKeys(places) ? keyInventory(places) : undefined;
  return {
    ...{ directories: directories.length, key_wrapped_by: kek || 'a file beside the keys' },
    keys_away: directories.filter(
      (each) => keys?.directories.some(({ directory, isThere }) => isThere && directory === each) !== true,
    ),
    copies: (keys?.copies ?? []).filter(({ made }) => Date.parse(made) <= doneAt),
    left_out: leftOut.filter(({ since }) => Date.parse(since) <= doneAt),
  };
}

/** What their envelopes say, which stay, and where encrypted bytes are left. */
async function erasedEvents(log: EventLog, sequences: SequenceSet, withIds: boolean) {
  const kinds = new Map<EventKind, number>();
  const ids = new Map<string, string[]>();
  const numbers = new Map<string, number[]>();
  const runs = new Set<string>();
  let [first, last, left] = [Infinity, -Infinity, 0];
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
    if (!isNoId(source, entry.runIdAt)) runs.add(`${uuidText(source, entry.runIdAt)} ${organisation}`);
    [first, last] = [Math.min(first, receivedAt), Math.max(last, receivedAt)];
    if (entry.bucket !== undefined) left++;
  }
  return {
    ...{ organisations: [...ids.keys()].sort(), events: sequences.size, runs: runs.size },
    events_by_kind: Object.fromEntries(kinds),
    ...{
      first_received: first > last ? null : instant(first),
      last_received: first > last ? null : instant(last),
    },
    bytes_left: left,
    event_ids: withIds ? Object.fromEntries(ids) : {},
    event_numbers: withIds ? Object.fromEntries(numbers) : {},
  };
}

async function* entriesOf(log: EventLog, sequences: SequenceSet): AsyncGenerator<PassedEntry> {
  let from: Cursor = BEGINNING;
  for (const { first, end } of sequences.windows(MOST_BETWEEN)) {
    const pass = log.pass({ sequence: first, at: from.at }, { through: end - 1 });
    let next = await pass.next();
    for (; !next.done; next = await pass.next())
      for (const entry of next.value) if (!entry.isOwn && sequences.has(entry.sequence)) yield entry;
    from = next.value;
  }
}

/** What `erase plan --certificate` takes from one. */
interface ReadCertificate extends Pick<Certificate, 'log' | 'action'> {
  /** An id is of one event of an organisation: another one may have it too. */
  readonly events: readonly { readonly organisation: string; readonly id: string }[];
}

/** @param file its name, for errors. @throws CommandFailure for what is not a certificate that names its events. */
export function certificateIn(bytes: Buffer, file: string): ReadCertificate {
  if (bytes.length > MOST_BYTES) throw usage(`${file}: a certificate has at most 256 MiB`);
  let read: Partial<Record<keyof Certificate, unknown>>;
  try {
    read = Object(JSON.parse(bytes.toString())) as typeof read;
  } catch {
    throw usage(`${file}: it is not JSON, as collector erase --certificate prints it with --json`);
  }
  const { format, log, action, events, event_ids: ids } = read;
  const isText = (value: unknown): value is string => typeof value === 'string';
  const isId = (value: unknown): value is string => isText(value) && UUID.test(value);
  if (format !== FORMAT || !isText(log) || !/^[0-9a-f]{32}$/.test(log) || !isId(action))
    throw usage(`${file}: it is not a certificate of an erasure in the form ${FORMAT}`);
  const named = Object.entries(Object(ids) as Record<string, unknown>).flatMap(([organisation, each]) =>
    (Array.isArray(each) ? (each as unknown[]) : [each]).map((id) => ({ organisation, id })),
  );
  if (!named.every(({ id }) => isId(id)) || named.length === 0 || named.length !== events)
    throw usage(`${file}: it does not name the ids of its events`);
  return { log, action, events: named as ReadCertificate['events'] };
}
