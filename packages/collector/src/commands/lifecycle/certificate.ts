/** The certificate of an erasure: what the log and the directory of keys say of it, and what it does not cover. */
import { eventsOf } from '../../privacy/actions.js';
import { hasKeys, keyInventory, keysOnDisk, type LeftOut } from '../../privacy/key-directory.js';
import { counted } from '../../quantity.js';
import { openStore } from '../../store/open-to-read.js';
import { readKeyPlaces } from '../../store/key-places.js';
import { readMirrorNote } from '../../transparency/state-files.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { alignedTable, legible, wrappedFor } from '../terminal.js';
import { type AccessLine, findAccess } from '../access-log.js';
import { version } from '../typed.js';

/** The names are a promise to programs. */
export interface Certificate {
  readonly format: 'clinical-events/certificate/v1';
  readonly action: string;
  readonly reason: string;
  /** Who asked, as the access log has it, which the log has heads of; null where it has not. */
  readonly asked_by: AskedBy | null;
  /** The action by which the policy was set, and the rule of it, where one decided. */
  readonly policy?: string;
  readonly rule?: string;
  readonly log: string;
  /** The sequences of the entries that say it. */
  readonly entries: readonly number[];
  /** Their ids: collector proof proves each by its own. */
  readonly entry_ids: readonly string[];
  readonly events: number;
  readonly method: string;
  readonly tool: string;
  readonly began: string;
  /** From when on no directory of keys that the log knows of has a key; null while one may. */
  readonly gone_from_log: string | null;
  /** When the last copy of the keys that is known ends; null while that cannot be said. */
  readonly gone_from_copies: string | null;
  /** Copies of keys that were made before, and may still open it. */
  readonly copies: readonly { readonly made: string; readonly until: string }[];
  /** Directories of keys that were left out before it was done: whether they still have a key is not known here. */
  readonly left_out: readonly LeftOut[];
  /** From when on what is left of replaced files opens nothing: the key that they were under is destroyed. */
  readonly gone_from_remnants: string | null;
  readonly directories: number;
  readonly key_wrapped_by: string;
  /** The database that has the log, where this was made on a mirror: directories and copies are those of the mirror. */
  readonly mirror_of?: string;
  readonly stored_in_the_clear?: number;
  /** Of what was asked for, how many events were left: by the holds that are on them, and by the floors of the policy. */
  readonly held?: Readonly<Record<string, number>>;
  readonly below_floors?: Readonly<Record<string, number>>;
  readonly not_covered: readonly string[];
}

type AskedBy = Pick<AccessLine, 'at' | 'uid' | 'user' | 'login_uid' | 'sudo_user'>;

const METHOD =
  'cryptographic erasure (NIST SP 800-88): the AES-256 key of each event was destroyed, and its salt lay under it';

const NOT_COVERED = [
  'what was given out: exports, records, reports, proofs (access.log says by whom and when)',
  'what senders keep: their spools and quarantines, and their own records',
  'content that an event names by address alone, such as files of the content store',
  'events that came after it began, also of the same person: the same erasure again finds new runs, and collector erase --again ACTION what came late for these',
  'reject files of collector import',
  'the envelope of each event, which stays: kind, organisation, API key, times, random ids',
];

const NOT_COVERED_BY_A_MIRROR = [
  'other mirrors of the log: each destroys its own keys when it has followed',
  'write-ahead log, base back-ups and standbys of the database of keys, which are to be gone within a week',
];

/** What was asked for and not erased; not known of an erasure that was asked for before. */
interface Left {
  readonly storedInTheClear?: number;
  readonly held?: ReadonlyMap<string, number>;
  readonly floors?: ReadonlyMap<string, number>;
}

/** @throws CommandFailure when the log has no such action, or it retires nothing. */
export async function certificateOf(
  dataDir: string,
  action: string,
  { storedInTheClear = 0, held, floors }: Left = {},
): Promise<Certificate> {
  const { events: log } = openStore(dataDir);
  const actions = log.actions?.();
  const parts = actions?.logged.filter(({ said }) => said.action === action && said.does === 'retire') ?? [];
  const [first] = parts;
  if (actions === undefined || first?.said.does !== 'retire')
    throw new CommandFailure(`no action ${action} erases anything in ${dataDir}`, EXIT.notFound);
  const places = readKeyPlaces(dataDir);
  const keys = hasKeys(keysOnDisk, places) ? keyInventory(keysOnDisk, places) : undefined;
  const doneAt = actions.doneAt(action);
  const mirror = readMirrorNote(dataDir);
  const copies = (keys?.copies ?? []).filter(({ made }) => Date.parse(made) <= (doneAt ?? Infinity));
  const until = copies.map((copy) => copy.until).sort();
  const leftOut = (places.leftOut ?? []).filter(({ since }) => Date.parse(since) <= (doneAt ?? Infinity));
  const done = actions.logged.findIndex(({ said }) => said.action === action && said.does === 'done');
  const rotated = done < 0 ? undefined : actions.logged.slice(done).find(({ said }) => said.does === 'keys');
  const gone = doneAt === undefined ? null : iso(doneAt);
  const { reason, policy, rule } = first.said;
  const line = await findAccess(dataDir, `"action":"${action}"`);
  return {
    format: 'clinical-events/certificate/v1',
    ...{
      action,
      reason,
      asked_by: line === undefined ? null : askedBy(line),
      ...(policy !== undefined && { policy }),
      ...(rule !== undefined && { rule }),
      log: log.ledgerId,
      entries: parts.map(({ sequence }) => sequence),
      entry_ids: parts.map(({ entryId }) => entryId),
    },
    events: eventsOf(actions.partsIn(action).flatMap((part) => part.keys)).size,
    ...{ method: METHOD, tool: `collector ${version()}`, began: iso(first.at), gone_from_log: gone },
    gone_from_copies: gone === null || leftOut.length > 0 ? null : ([gone, ...until].sort().at(-1) ?? gone),
    ...{ copies, left_out: leftOut, gone_from_remnants: rotated === undefined ? null : iso(rotated.at) },
    ...{ directories: places.directories.length, key_wrapped_by: places.kek || 'a file beside the keys' },
    ...(mirror && { mirror_of: mirror.store }),
    ...(storedInTheClear > 0 && { stored_in_the_clear: storedInTheClear }),
    ...(held !== undefined && held.size > 0 && { held: Object.fromEntries(held) }),
    ...(floors !== undefined && floors.size > 0 && { below_floors: Object.fromEntries(floors) }),
    not_covered: mirror === undefined ? NOT_COVERED : [...NOT_COVERED, ...NOT_COVERED_BY_A_MIRROR],
  };
}

function askedBy({ at, uid, user, login_uid: login, sudo_user: sudo }: AccessLine): AskedBy {
  return {
    ...{ at, uid, user },
    ...(login !== undefined && { login_uid: login }),
    ...(sudo !== undefined && { sudo_user: sudo }),
  };
}

function askedByText({ asked_by: by, policy, rule }: Certificate): string {
  if (policy !== undefined) return `rule ${rule ?? ''} of the policy that action ${policy} has set`;
  if (by === null) return 'nobody that the access log here names';
  const { at, uid, user, login_uid: login, sudo_user: sudo } = by;
  const as = [
    ...(sudo === undefined ? [] : [`by sudo from ${legible(sudo)}`]),
    ...(login === undefined ? [] : [`logged in as number ${login}`]),
  ];
  return `${user === null ? `user number ${uid}` : legible(user)}${as.length > 0 ? ` (${as.join(', ')})` : ''}, at ${at}`;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

export function certificateText(certificate: Certificate): string {
  const { action, reason, log, entries, events, began, gone_from_log, gone_from_copies } = certificate;
  const { copies, left_out, gone_from_remnants, directories, key_wrapped_by, tool, stored_in_the_clear } =
    certificate;
  const { mirror_of, not_covered, held = {}, below_floors = {} } = certificate;
  const rows = [
    ['Action', action],
    ['Log', log],
    ['Reason', reason],
    ['Asked by', askedByText(certificate)],
    ['Events', `${events}`],
    ['Entries of the log', `${entries.join(', ')} (proved by collector proof)`],
    ['Begun', began],
    [
      'Gone from the log',
      gone_from_log ??
        (mirror_of === undefined
          ? `not yet: one of ${directories} directories of keys cannot be reached`
          : 'not yet: the database of keys cannot be reached'),
    ],
    [
      'Gone from copies of keys',
      gone_from_copies === null
        ? left_out.length === 0
          ? 'not yet'
          : `not known: ${left_out.map(({ directory, since }) => `${directory} was left out on ${since.slice(0, 10)}`).join(', ')}`
        : copies.length === 0
          ? `${gone_from_copies} (no copy is known)`
          : `${gone_from_copies} (${counted(copies.length, 'copy', 'copies')})`,
    ],
    [
      'Gone from remnants',
      gone_from_remnants ??
        'with the next epoch of keys, 12 hours after (collector encryption-keys rotate: now)',
    ],
    [
      'Keys',
      (mirror_of === undefined
        ? ''
        : `of the log in ${mirror_of}: in a database of their own; of this mirror: `) +
        `${counted(directories, 'directory', 'directories')}, wrapped by ${key_wrapped_by}`,
    ],
    ['Made by', tool],
  ];
  const lines = [
    ...(stored_in_the_clear === undefined
      ? []
      : [
          `Not erased: ${counted(stored_in_the_clear, 'event')} that had been stored in the clear, without a key.`,
        ]),
    ...Object.entries(held).map(
      ([name, count]) => `Not erased: ${counted(count, 'event')} on hold by ${legible(name)}.`,
    ),
    ...Object.entries(below_floors).map(
      ([name, count]) => `Not erased: ${counted(count, 'event')} kept by the floor ${legible(name)}.`,
    ),
    gone_from_log === null
      ? `This is not at its end: what can be reached is destroyed, the rest follows by itself once it is there, and then there is a certificate: collector actions certificate ${action}`
      : `How: ${METHOD}.`,
    'Not covered:',
    ...not_covered.map((each) => `- ${each}`),
  ];
  return [
    gone_from_log === null ? 'ERASURE BEGUN\n\n' : 'CERTIFICATE OF ERASURE\n\n',
    alignedTable(rows),
    '\n',
    ...lines.map((line) => `${wrappedFor(process.stdout, line)}\n`),
  ].join('');
}
