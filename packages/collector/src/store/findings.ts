/**
 * Everything that `collector verify` and `collector doctor` can find, in one closed table: kind, severity, subject and
 * sentence follow from the name of a finding and are chosen nowhere else.
 *
 * A kind is a promise to scripts, as are sequence, event id, file and offset of a finding. A sentence is not.
 */
import { counted } from '../quantity.js';

type Severity = 'ok' | 'warning' | 'damage';

/** What `collector doctor` and `collector store check` print of one check. */
export interface StoreFinding {
  readonly severity: Severity;
  /** What was checked, one word or two. */
  readonly subject: string;
  readonly message: string;
}

/** What each kind of finding of `verify` is to `doctor`. */
export const KINDS = {
  /** Entries, a frame or the header of a segment are not what was written, and the entries after them are. */
  altered: { severity: 'damage', subject: 'events' },
  /** The log is shorter than it was signed, or lacks numbers. */
  missing: { severity: 'damage', subject: 'events' },
  /** The log is not the history that was signed: entries were inserted, removed or reordered, or it was rebuilt. */
  forked: { severity: 'damage', subject: 'events' },
  unreadable: { severity: 'damage', subject: 'events' },
  /** An encrypted payload has no key, and no action has destroyed it. */
  unexplained: { severity: 'damage', subject: 'events' },
  /** An encrypted payload has a key that an action has destroyed. */
  not_retired: { severity: 'damage', subject: 'events' },
  /** An action erased events under a hold. */
  unlawful: { severity: 'damage', subject: 'events' },
  /** The hashes beside the log are not its hashes. They are derived: nothing that is stored is damaged. */
  tile_altered: { severity: 'warning', subject: 'tree' },
  checkpoint_invalid: { severity: 'damage', subject: 'checkpoint' },
  checkpoint_missing: { severity: 'damage', subject: 'checkpoint' },
  /** `access.log` does not match the heads in the log. */
  access_log_altered: { severity: 'damage', subject: 'access log' },
  /** Entries in a database without a place in the log: nothing proves them. */
  not_signed: { severity: 'warning', subject: 'order' },
  /** No fault. */
  note: { severity: 'ok', subject: 'events' },
} as const satisfies Readonly<Record<string, { readonly severity: Severity; readonly subject: string }>>;

export type VerifyKind = keyof typeof KINDS;

/** Where a finding is, and what it is about: promises to scripts. */
export interface FindingPlace {
  readonly sequence?: number;
  readonly event_id?: string;
  /** Of a log in a database: where a batch is, and its number of entries. */
  readonly lane?: number;
  readonly batch?: number;
  readonly entries?: number;
  readonly file?: string;
  readonly offset?: number;
}

/** What `collector verify` finds. */
export interface VerifyFinding extends FindingPlace {
  readonly kind: VerifyKind;
  readonly message: string;
}

/** `entry 7`, or `entries 7 to 9`: of numbers that count the log's own entries too. */
export function entryRange(sequence: number, count: number): string {
  return count === 1 ? `entry ${sequence}` : `entries ${sequence} to ${sequence + count - 1}`;
}

/** `event 7`, or `events 7 to 9`. */
export function eventRange(sequence: number, count: number): string {
  return count === 1 ? `event ${sequence}` : `events ${sequence} to ${sequence + count - 1}`;
}

const are = (count: number) => (count === 1 ? 'is' : 'are');
const have = (count: number) => (count === 1 ? 'has' : 'have');
const entries = (count: number) => counted(count, 'entry', 'entries');
const more = (others: number) => (others === 0 ? '' : `; the same applies to ${others} more`);

interface Entry {
  readonly kind: VerifyKind;
  readonly says: (...facts: never[]) => string;
}

/** What `verify` finds. A place in a file is put after the sentence. */
export const FINDINGS = {
  // An entry, by its frame. `event` is its number and id.
  payload_without_salt: {
    kind: 'altered',
    says: (event: string) =>
      `the payload of ${event} was removed or replaced: the frame has no room for a salt`,
  },
  payload_altered: {
    kind: 'altered',
    says: (event: string, expected: string) =>
      `the payload of ${event}, or its salt, is not the one that ${expected}; its envelope is`,
  },
  payload_unfit: {
    kind: 'altered',
    says: (event: string) => `the payload of ${event} does not match the commitment to it`,
  },
  payload_closed: {
    kind: 'altered',
    says: (event: string, also: string) => `the payload of ${event} cannot be opened with its key${also}`,
  },
  frame_altered: {
    kind: 'altered',
    says: (event: string, fields: string, rest: string) =>
      `the frame of ${event} has changed (${fields})${rest}`,
  },
  event_altered: {
    kind: 'altered',
    says: (event: string, expected: string, isCommitted: boolean) =>
      `${event} is not the one that ${expected}: ` +
      (isCommitted
        ? 'its envelope has changed, or its payload together with the commitment to it'
        : 'more than one of its envelope, its payload and the commitment to it has changed'),
  },
  // A range of a segment that holds no readable frame.
  events_missing: {
    kind: 'missing',
    says: (sequence: number, count: number) =>
      `${eventRange(sequence, count)} ${are(count)} missing: ` +
      `${sequence === 1 ? 'the log begins with' : `event ${sequence - 1} is followed by`} event ${sequence + count}`,
  },
  events_unreadable: {
    kind: 'unreadable',
    says: (sequence: number, count: number, bytes: number) =>
      `${eventRange(sequence, count)} cannot be read: ${counted(bytes, 'byte')} in ${count === 1 ? 'its' : 'their'} place hold no frame`,
  },
  bytes_inserted: {
    kind: 'altered',
    says: (sequence: number, bytes: number) =>
      `${counted(bytes, 'byte')} that are no event were inserted before event ${sequence}`,
  },
  tail_torn: {
    kind: 'note',
    says: (bytes: number) =>
      `${counted(bytes, 'byte')} after the last event, most likely of a batch that was never acknowledged; unless a ` +
      'collector is writing them, the next start moves them to ledger/torn',
  },
  bytes_unused: {
    kind: 'note',
    says: (bytes: number) => `${counted(bytes, 'byte')} that are no event and are never read`,
  },
  segment_empty: {
    kind: 'forked',
    says: (file: string) => `${file} holds no event, and others follow it: it was inserted or emptied`,
  },
  segment_overlaps: {
    kind: 'forked',
    says: (file: string, begins: number, due: number) =>
      `${file} begins with event ${begins}, and the segment before it ends with event ${due - 1}: one of them was ` +
      'inserted or renumbered',
  },
  segment_header: {
    kind: 'altered',
    says: (file: string, faults: readonly string[]) => `the header of ${file}: ${faults.join('; ')}`,
  },
  segment_count: {
    kind: 'altered',
    says: (file: string, what: string, said: number, are: number) =>
      `the header of ${file} says that ${said} ${what} come before it, and ${are} do`,
  },
  segment_irregular: {
    kind: 'unreadable',
    says: (file: string) => `${file} is not a regular file and was not opened`,
  },
  // The log against what was signed.
  entry_differs: {
    kind: 'altered',
    says: (sequence: number) => `entry ${sequence} is not the one that was signed`,
  },
  log_differs: {
    kind: 'forked',
    says: () => 'the log is not the one that was signed; the position of the change is unknown',
  },
  log_differs_from: {
    kind: 'forked',
    says: (sequence: number, leaves: number, signed: number, first: string) =>
      `from entry ${sequence} on the log is not the one that was signed: entries were removed, inserted, reordered or ` +
      `all altered; it holds ${leaves}, and ${signed} were signed; the first: ${first}`,
  },
  first_difference: {
    kind: 'note',
    says: (sequence: number, proven: number, after: string) =>
      `first mismatch: entry ${sequence}; ` +
      `${proven === 0 ? 'no entry before it is proved' : `entries up to ${proven} are proved to be those that were signed`}; ${after}`,
  },
  roots_contradict: {
    kind: 'forked',
    says: (one: string, other: string, size: number) =>
      `${one} and ${other} are both signed by a key of this log over ${entries(size)} and have different roots: proof ` +
      'that the log was forked',
  },
  root_unknown: {
    kind: 'unreadable',
    says: (source: string, size: number) =>
      `the log cannot be compared with ${source}, signed over ${entries(size)}: entries cannot be read, and the tree ` +
      'lacks their hashes',
  },
  root_uncertain: {
    kind: 'unreadable',
    says: (source: string, size: number, range: string) =>
      `the log does not give the root of ${source} over ${entries(size)}; because entries cannot be read, the position ` +
      `of the change is unknown; in question: ${range}`,
  },
  log_rebuilt: {
    kind: 'forked',
    says: (source: string, size: number, range: string, before: string) =>
      `the log is not the one that ${source} was signed over, of ${entries(size)}: it was rebuilt or forked in ` +
      `${range}; ${before}`,
  },
  log_forked: {
    kind: 'forked',
    says: (source: string, later: string, size: number, range: string, before: string) =>
      `this log and ${source} differ in ${range}; ${before}; both are signed by keys of this log (this log in ${later}, ` +
      `of ${entries(size)}): it was restored from an old copy, or rebuilt`,
  },
  log_replaced: {
    kind: 'missing',
    says: (source: string, signed: number, held: number, sequence: number) =>
      `${source} was signed over ${entries(signed)}; this log, of ${entries(held)}, has others from entry ${sequence} on`,
  },
  end_missing: {
    kind: 'missing',
    says: (sequence: number, count: number, source: string, signed: number) =>
      `${entryRange(sequence, count)} ${are(count)} missing from the end of the log, or this is an older copy of it: ${source} was signed over ${entries(signed)}`,
  },
  entries_missing: {
    kind: 'missing',
    says: (source: string, signed: number, held: number, after: number) =>
      `${source} was signed over ${entries(signed)}, and the log holds ${held}: the others are missing from its end or, ` +
      `if entries were renumbered, from anywhere after entry ${after}; or this is an older copy of it`,
  },
  tree_missing: {
    kind: 'note',
    says: (eventsStand: boolean) =>
      `tree/ does not exist; ${eventsStand ? 'the next start rebuilds it' : 'it would show more precisely which events have changed'}`,
  },
  level_short: {
    kind: 'tile_altered',
    says: (level: number, there: number) =>
      `tree/level-${level} is cut short: hashes from number ${there} on are missing`,
  },
  hashes_altered: {
    kind: 'tile_altered',
    says: (level: number, index: number, count: number, of: string) =>
      `${count === 1 ? `hash ${index}` : `hashes ${index} to ${index + count - 1}`} of level ${level} ${are(count)} not ` +
      `the hash of ${of}: the tree was changed, and the log was not`,
  },
  tree_derived: {
    kind: 'note',
    says: () =>
      'the events are those that were signed, and the hashes in tree/ are derived from them: remove tree/ while no ' +
      'collector runs, and the next start rebuilds it',
  },
  // Keys, actions and holds.
  keys_unfit: { kind: 'note', says: (why: string) => `no payload was opened: ${why}` },
  keys_destroyed_later: {
    kind: 'note',
    says: (events: number) =>
      `${counted(events, 'event')} cannot be opened: an erasure newer than this copy destroyed their keys`,
  },
  key_missing: {
    kind: 'unexplained',
    says: (events: string) =>
      `${events} cannot be opened: the key is missing, and no action in the log destroyed it`,
  },
  key_missing_noted: {
    kind: 'unexplained',
    says: (events: string) =>
      `${events} cannot be opened: the key is missing, and no action in the log destroyed it; an action beside the keys ` +
      'did, which proves nothing. If this log was restored, start the collector, which copies the action into the log',
  },
  key_back: {
    kind: 'not_retired',
    says: (events: string) =>
      `${events} can be opened, although an action in the log destroyed the keys: the keys are of an older state, and ` +
      'the next start destroys them',
  },
  erased_under_hold: {
    kind: 'unlawful',
    says: (sequence: number, count: number, action: string, why: string) =>
      `${eventRange(sequence, count)} ${count === 1 ? 'was' : 'were'} erased by action ${action}, although ${why}`,
  },
  quarantined: {
    kind: 'note',
    says: (batches: number, ids: number) =>
      `${counted(batches, 'batch', 'batches')} and ${counted(ids, 'id')} are quarantined: no collector stored them`,
  },
  // Checkpoints and the keys that sign them.
  nothing_signed: { kind: 'note', says: () => 'nothing was stored and nothing signed yet' },
  latest_missing: {
    kind: 'checkpoint_missing',
    says: (file: string, held: number) => `${file} is missing, although the log holds ${entries(held)}`,
  },
  unsigned: {
    kind: 'note',
    says: (count: number, sequence: number, since: string) =>
      `${entries(count)}, from number ${sequence} on, ${are(count)} under no checkpoint yet; the oldest was received at ${since}`,
  },
  unsigned_for_long: {
    kind: 'checkpoint_missing',
    says: (count: number, sequence: number, since: string) =>
      `${entries(count)}, from number ${sequence} on, ${are(count)} under no checkpoint; the oldest was received at ` +
      `${since}, more than an hour before the newest: signing stopped, or newer checkpoints were removed`,
  },
  given_out: {
    kind: 'checkpoint_missing',
    says: (size: number, largest: number, file: string) =>
      `checkpoints over more entries than ${size} were given out (${file} says ${largest})`,
  },
  sinks_unread: {
    kind: 'note',
    says: (file: string, why: string) => `${file} cannot be read and was not compared: ${why}`,
  },
  checkpoint_unfit: {
    kind: 'checkpoint_invalid',
    says: (source: string, why: string, others: number) =>
      `${source} is not a checkpoint of this log: ${why}${more(others)}`,
  },
  checkpoint_passed_over: {
    kind: 'note',
    says: (source: string, why: string, others: number) => `${source} was ignored: ${why}${more(others)}`,
  },
  no_checkpoint: {
    kind: 'checkpoint_invalid',
    says: (path: string) => `${path} holds no whole checkpoint: nothing was compared`,
  },
  checkpoints_unchecked: {
    kind: 'checkpoint_invalid',
    says: (count: number) => `${counted(count, 'checkpoint')} cannot be checked: there is no key of the log`,
  },
  newest_by_earlier_key: {
    kind: 'checkpoint_invalid',
    says: (source: string) =>
      `${source} is signed only by a key older than the keys given; give the log's first key, or wait for the next ` +
      'checkpoint',
  },
  signed_by_earlier_keys: {
    kind: 'note',
    says: (source: string, others: number) =>
      `${source}${others === 0 ? '' : ` and ${others} more`}: signed only by keys older than those given, and compared with the log`,
  },
  rotation_missing: {
    kind: 'checkpoint_invalid',
    says: (file: string, why: string) => `${file}: ${why}`,
  },
  rotation_unfit: {
    kind: 'checkpoint_invalid',
    says: (number: number, why: string) => `--rotations: note number ${number} cannot be followed: ${why}`,
  },
  key_of_another_log: {
    kind: 'note',
    says: (origin: string) => `--key: key ignored: it belongs to the log ${origin}`,
  },
  first_key_missing: {
    kind: 'checkpoint_missing',
    says: (file: string) =>
      `${file}, the verifier key that the log began with, is missing: restore it, or give it by --key`,
  },
  keys_broken: { kind: 'checkpoint_invalid', says: (why: string) => why },
  // The access log against its heads.
  head_unknown: {
    kind: 'note',
    says: (sequence: number) => `entry ${sequence} is an access-log head in an unknown format`,
  },
  access_log_unreadable: {
    kind: 'unreadable',
    says: (file: string, why: string) => `${file} ${why}`,
  },
  lines_altered: {
    kind: 'access_log_altered',
    says: (file: string, sequence: number, first: number, last: number, after: string) =>
      `${first === last ? `line ${last}` : `lines ${first} to ${last}`} of ${file} do not match entry ${sequence} of the log: ` +
      `lines were altered, removed, inserted or reordered${after}`,
  },
  lines_missing: {
    kind: 'access_log_altered',
    says: (file: string, sequence: number, said: number, had: number, after: string) =>
      `${file} has ${counted(had, 'whole line')}, and entry ${sequence} of the log was written over ${said}: the others ` +
      `are missing${after}`,
  },
  lines_fewer: {
    kind: 'access_log_altered',
    says: (file: string, sequence: number, said: number, after: string) =>
      `entry ${sequence} of the log was written over ${counted(said, 'line')}, fewer than the head before it: ${file} was ` +
      `shorter then${after}`,
  },
  line_foreign: {
    kind: 'access_log_altered',
    says: (file: string, line: number, others: number, writer: string) =>
      foreignLine(file, line, others, writer),
  },
  line_foreign_shared: {
    kind: 'note',
    says: (file: string, line: number, others: number, writer: string) =>
      foreignLine(file, line, others, writer),
  },
  lines_torn: {
    kind: 'note',
    says: (file: string, lines: number) =>
      `${counted(lines, 'line')} of ${file} ${are(lines)} torn, as by a crash or a full disk`,
  },
  last_line_torn: {
    kind: 'note',
    says: (file: string, bytes: number) =>
      `the last ${counted(bytes, 'byte')} of ${file} ${are(bytes)} a torn line, or one that is being written`,
  },
  // The tables of a log in a database.
  rows_without_leaf: {
    kind: 'altered',
    says: (rows: number, sequence: number) =>
      `${counted(rows, 'row')} of events after event ${sequence} ${have(rows)} no leaf`,
  },
  id_unregistered: {
    kind: 'altered',
    says: (event: string) => `${event} is not in event_ids: it could be stored again`,
  },
  ids_without_batch: {
    kind: 'altered',
    says: (ids: number, lane: number, batch: number) =>
      `event_ids has ${counted(ids, 'id')} that no batch has: such an event could never be stored. The first ${are(ids)} in ` +
      `batch ${batch} of lane ${lane}; collector store quarantine frees them`,
  },
  batches_without_place: {
    kind: 'note',
    says: (count: number, lane: number, batches: number) => withoutPlace(count, lane, batches),
  },
  batches_not_signed: {
    kind: 'not_signed',
    says: (count: number, lane: number, batches: number, batch: number, why: string) =>
      `${withoutPlace(count, lane, batches)}: batch ${batch}: ${why}; see collector store quarantine --dry-run`,
  },
  lane_uneven: {
    kind: 'altered',
    says: (lane: number, batches: number, last: number) =>
      `lane ${lane} has ${batches} batches, and the last is number ${last}`,
  },
  places_after_end: {
    kind: 'altered',
    says: (batches: number) =>
      `sequenced gives ${counted(batches, 'batch', 'batches')} a place after the end of the log`,
  },
  place_contradicts_batch: {
    kind: 'altered',
    says: (lane: number, batch: number) =>
      `sequenced and batches contradict each other about batch ${batch} of lane ${lane}`,
  },
  action_unlisted: {
    kind: 'altered',
    says: (sequence: number) =>
      `entry ${sequence} is an action that is not in the table actions: no collector carries it out`,
  },
  listed_without_action: {
    kind: 'altered',
    says: (lane: number, batch: number) =>
      `the table actions has batch ${batch} of lane ${lane}, which is no action`,
  },
  actions_misnumbered: {
    kind: 'altered',
    says: () => 'the table actions is not numbered in the order in which actions were stored',
  },
} as const satisfies Readonly<Record<string, Entry>>;

function foreignLine(file: string, line: number, others: number, writer: string): string {
  const rest = others === 0 ? '' : `, and ${others} more ${are(others)} not`;
  const by = writer === '' ? '' : `: the database role ${writer} wrote it`;
  return `line ${line} of ${file} is not one that the collector writes${rest}${by}`;
}

function withoutPlace(count: number, lane: number, batches: number): string {
  return (
    `${entries(count)} of lane ${lane}, in ${counted(batches, 'batch', 'batches')}, ${have(count)} no place in the log ` +
    `and ${are(count)} not signed yet`
  );
}

type Facts<Name extends keyof typeof FINDINGS> = Parameters<(typeof FINDINGS)[Name]['says']>;

/** A finding of the table. @param place in the order in which `--json` prints it. */
export function finding<Name extends keyof typeof FINDINGS>(
  name: Name,
  place: FindingPlace,
  ...facts: Facts<Name>
): VerifyFinding {
  const { kind, says }: Entry = FINDINGS[name];
  const { file, offset } = place;
  const where = file === undefined || offset === undefined ? '' : `; ${file}, byte ${offset}`;
  return { kind, ...place, message: `${says(...(facts as never[]))}${where}` };
}

/** The finding for the first of `count` entries, extended to all of them. */
export function forAll(first: VerifyFinding, sequence: number, count: number): VerifyFinding {
  if (count === 1) return first;
  const others = `${entryRange(sequence + 1, count - 1)} ${are(count - 1)} not as signed either`;
  return { ...first, message: `${first.message}; ${others}` };
}

/** Takes findings. */
export interface FindingList {
  add(...found: readonly VerifyFinding[]): void;
  /** Call when the log was seen to be the one that was signed: no finding is no proof of that. */
  confirm(): void;
  /** How many there are besides notes. */
  readonly faults: number;
  /** Faults that are only counted. */
  unlisted: number;
}
