/** The certificate of an erasure, from the log, its keys, the data directory and the erasure record. */
import type { EventKind } from '@clinical-events/protocol';
import { eventsOf, type LoggedAction } from '../../privacy/actions.js';
import { hasKeys, keyInventory, type LeftOut } from '../../privacy/key-directories.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import { BEGINNING, type Cursor, type EventLog, type PassedEntry } from '../../store/contract/events.js';
import { readKeyPlaces } from '../../store/key-places.js';
import { compactedAt } from '../../store/open-state.js';
import { openStore } from '../../store/open-to-read.js';
import { isNoId, uuidText } from '../../store/text.js';
import { readMirrorNote } from '../../tree/state-files.js';
import {
  type ClosedFiles,
  type FollowingMirror,
  type FollowingViewer,
  mirrorsOf,
  missingFiles,
  viewersOf,
} from '../access-lines.js';
import { CommandFailure, EXIT, usage } from '../exit-codes.js';
import { version } from '../typed.js';
import { cosigners, newestCheckpoint } from '../verify/log-checkpoints.js';
import { type ErasureFacts, erasureRecordOf, type LeftEvents, type Person } from './erasure-record.js';
import { instant } from '../../quantity.js';

const FORMAT = 'clinical-events/erasure-certificate/v1';
/** Maximum size of a certificate that is read: seven million events. */
const MOST_BYTES = 256 << 20;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Gap in sequences up to which reading continues instead of seeking. */
const MOST_BETWEEN = 4096;

interface Entry {
  readonly sequence: number;
  readonly id: string;
}

/** Programs rely on the names. All times are RFC 3339 in UTC. */
export interface Certificate {
  readonly format: typeof FORMAT;
  readonly action: string;
  readonly reason: string;
  /** The facts in the erasure record; null if it is not available. */
  readonly case: string | null;
  readonly planner: Person | null;
  readonly applier: Person | null;
  readonly mentions: number | null;
  readonly left: readonly LeftEvents[] | null;
  readonly overridden: ErasureFacts['overridden'] | null;
  readonly set_by_hand: ErasureFacts['setByHand'] | null;
  /** Whether the plan could not decrypt some payloads; their number, if the record has it. */
  readonly incomplete: boolean;
  readonly unread: number | null;
  /** False if parts of the action were not begun, because a hold or a policy was set. */
  readonly whole: boolean;
  readonly floors_overridden: boolean;
  /** The action that set the retention policy, and its rule, if a policy decided. */
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
  /** The entries that order the erasure, and the one that records its completion. */
  readonly entries: readonly Entry[];
  readonly done_entry: Entry | null;
  /** The newest one, if it covers all entries. */
  readonly checkpoint: {
    readonly size: number;
    readonly root: string;
    readonly cosigned_by: readonly string[];
  } | null;
  /** The time of printing; places and copies are as of then. */
  readonly printed: string;
  readonly began: string;
  readonly keys_destroyed: string | null;
  /** Key directories that cannot be reached now. */
  readonly keys_away: readonly string[];
  /**
   * When the last encrypted bytes were removed from the data directory; null if there still are some, or
   * never were any.
   */
  readonly bytes_removed: string | null;
  /** Number of events with encrypted bytes in the data directory. */
  readonly bytes_left: number;
  /** Recorded copies of keys that were made before the completion. */
  readonly copies: readonly { readonly made: string; readonly until: string }[];
  /** Key directories that were taken out of use before the completion, and may still contain the keys. */
  readonly left_out: readonly LeftOut[];
  /** When the key that wrapped the previous versions of the key files was destroyed. */
  readonly key_epoch_ended: string | null;
  readonly directories: number;
  readonly key_wrapped_by: string;
  /**
   * The database that has the log; directories, copies and the data directory are then those of this mirror.
   */
  readonly mirror_of: string | null;
  /**
   * For such a log, the mirrors that have reported that they destroyed their keys and replaced their names
   * key.
   */
  readonly mirrors: readonly FollowingMirror[];
  /** The viewers that have reported that they replaced the names key of their own catalogue. */
  readonly viewers: readonly FollowingViewer[];
  /** Files of the access log that are not in the data directory, if any: reports in them are unknown. */
  readonly access_log_missing?: readonly string[];
  readonly tool: string;
  /** Ids of the events, by organisation. */
  readonly event_ids: Readonly<Record<string, readonly string[]>>;
  /** Sequences of the same events in the same order, as in the entries. */
  readonly event_numbers: Readonly<Record<string, readonly number[]>>;
}

/**
 * The certificate as of now.
 * @param withIds whether to name each event: a policy may have erased millions.
 * @throws CommandFailure if the log has no such erasure; StoreDamaged.
 */
export async function certificateOf(
  dataDir: string,
  action: string,
  { withIds, closedFiles }: { readonly withIds: boolean; readonly closedFiles: ClosedFiles | undefined },
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
    const missing = await missingFiles(log, dataDir, closedFiles);
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
      viewers: await viewersOf(dataDir, action, closedFiles),
      ...(missing.length > 0 && { access_log_missing: missing }),
    };
  } finally {
    await tree.close();
    await log.close();
  }
}

function entryOf({ sequence, entryId }: LoggedAction): Entry {
  return { sequence, id: entryId };
}

/** @param doneAt the time until which copies may have included the keys. */
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

/** The facts in the envelopes, which are kept, and the number of events with encrypted bytes. */
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

/** The parts of a certificate that `erase plan --certificate` uses. */
interface ReadCertificate extends Pick<Certificate, 'log' | 'action'> {
  /** An event id is unique only within its organisation. */
  readonly events: readonly { readonly organisation: string; readonly id: string }[];
}

/** @param file its name, for messages. @throws CommandFailure unless it is a certificate with event ids. */
export function certificateIn(bytes: Buffer, file: string): ReadCertificate {
  if (bytes.length > MOST_BYTES) throw usage(`${file}: larger than 256 MiB, so not a certificate`);
  let read: Partial<Record<keyof Certificate, unknown>>;
  try {
    read = Object(JSON.parse(bytes.toString())) as typeof read;
  } catch {
    throw usage(`${file}: not JSON as printed by collector erase --certificate with --json`);
  }
  const { format, log, action, events, event_ids: ids } = read;
  const isText = (value: unknown): value is string => typeof value === 'string';
  const isId = (value: unknown): value is string => isText(value) && UUID.test(value);
  if (format !== FORMAT || !isText(log) || !/^[0-9a-f]{32}$/.test(log) || !isId(action))
    throw usage(`${file}: not a certificate of erasure in the format ${FORMAT}`);
  const named = Object.entries(Object(ids) as Record<string, unknown>).flatMap(([organisation, each]) =>
    (Array.isArray(each) ? (each as unknown[]) : [each]).map((id) => ({ organisation, id })),
  );
  if (!named.every(({ id }) => isId(id)) || named.length === 0 || named.length !== events)
    throw usage(`${file}: the ids of its events are missing`);
  return { log, action, events: named as ReadCertificate['events'] };
}
