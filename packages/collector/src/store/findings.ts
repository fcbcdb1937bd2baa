/**
 * All findings of `collector verify` and `collector doctor` in one closed table. The name of a finding
 * determines its kind, severity, subject and sentence.
 *
 * Scripts may rely on kind, sequence, event id, file and offset, but not on sentences.
 */
import assert from 'node:assert/strict';
import { counted } from '../quantity.js';

type Severity = 'ok' | 'warning' | 'damage';

/** The result of one check of `collector doctor` or `collector store check`. */
export interface StoreFinding {
  readonly severity: Severity;
  /** The part that was checked, in one or two words. */
  readonly subject: string;
  readonly message: string;
}

export type VerifyKind = keyof typeof FINDINGS;

/** The location and the event of a finding; scripts rely on these members. */
export interface FindingPlace {
  readonly sequence?: number;
  readonly event_id?: string;
  /** For a log in a database: the lane, number and size of a batch. */
  readonly lane?: number;
  readonly batch?: number;
  readonly entries?: number;
  readonly file?: string;
  readonly offset?: number;
}

/** A finding of `collector verify`. */
export interface VerifyFinding extends FindingPlace {
  readonly kind: VerifyKind;
  readonly message: string;
}

/** `entry 7` or `entries 7 to 9`. */
export function entryRange(sequence: number, count: number): string {
  return count === 1 ? `entry ${sequence}` : `entries ${sequence} to ${sequence + count - 1}`;
}

/** `event 7` or `events 7 to 9`. */
export function eventRange(sequence: number, count: number): string {
  return count === 1 ? `event ${sequence}` : `events ${sequence} to ${sequence + count - 1}`;
}

const are = (count: number) => (count === 1 ? 'is' : 'are');
const have = (count: number) => (count === 1 ? 'has' : 'have');
const entries = (count: number) => counted(count, 'entry', 'entries');
const more = (others: number) => (others === 0 ? '' : `; the same applies to ${others} more`);

interface Entry {
  readonly severity: Severity;
  readonly subject: string;
  readonly says: Readonly<Record<string, (...facts: never[]) => string>>;
}

/**
 * By kind: severity and subject for `doctor`, and sentences by name. The parameter `event` is its number and
 * id.
 */
export const FINDINGS = {
  /** Entries, a frame or the header of a segment have changed; later entries have not. */
  altered: {
    severity: 'damage',
    subject: 'events',
    says: {
      payload_without_salt: (event: string) =>
        `the payload of ${event} was removed or replaced: the frame has no room for a salt`,
      payload_altered: (event: string, expected: string) =>
        `the payload of ${event} or its salt has changed; its envelope is the one that ${expected}`,
      payload_unfit: (event: string) => `the payload of ${event} does not match the commitment to it`,
      payload_closed: (event: string, also: string) =>
        `the payload of ${event} cannot be opened with its key${also}`,
      frame_altered: (event: string, rest: string) => `the frame of ${event} has changed${rest}`,
      event_altered: (event: string, expected: string, isCommitted: boolean) =>
        `${event} is not the one that ${expected}: ` +
        (isCommitted
          ? 'its envelope has changed, or its payload together with the commitment to it'
          : 'more than one of its envelope, its payload and the commitment to it has changed'),
      bytes_inserted: (sequence: number, bytes: number) =>
        `${counted(bytes, 'byte')} that are not an event were inserted before event ${sequence}`,
      segment_header: (file: string, faults: readonly string[]) => `${file}: ${faults.join('; ')}`,
      segment_count: (file: string, what: string, said: number, are: number) =>
        `the header of ${file} says that ${said} ${what} come before it, but there are ${are}`,
      action_misnamed: (where: string, named: number, newest: number) =>
        `${where} names ${named === 0 ? 'no action' : `action ${named}`} as the previous action, but ` +
        (newest === 0 ? 'there is none before it' : `that is action ${newest}`),
      action_misplaced: (where: string, named: number) => `${where} names a wrong place for action ${named}`,
      rows_without_leaf: (rows: number, sequence: number) =>
        `${counted(rows, 'row')} of events after event ${sequence} ${have(rows)} no leaf`,
      id_unregistered: (event: string) => `${event} is not in event_ids: it could be stored again`,
      ids_without_batch: (ids: number, lane: number, batch: number) =>
        `event_ids has ${counted(ids, 'id')} without a batch, so events with these ids are refused; ` +
        `the first is in batch ${batch} of lane ${lane}; collector store quarantine frees them`,
      lane_uneven: (lane: number, batches: number, last: number) =>
        `lane ${lane} has ${batches} batches, but the last one is number ${last}`,
      places_after_end: (batches: number) =>
        `sequenced gives ${counted(batches, 'batch', 'batches')} a place after the end of the log`,
      place_contradicts_batch: (lane: number, batch: number) =>
        `sequenced and batches contradict each other about batch ${batch} of lane ${lane}`,
      action_unlisted: (sequence: number) =>
        `entry ${sequence} is an action that is not in the table actions: no collector carries it out`,
      listed_without_action: (lane: number, batch: number) =>
        `the table actions lists batch ${batch} of lane ${lane}, which is not an action`,
      actions_misnumbered: () =>
        'the table actions is not numbered in the order in which actions were stored',
    },
  },
  /** The log is shorter than the signed one, or sequences are missing. */
  missing: {
    severity: 'damage',
    subject: 'events',
    says: {
      events_missing: (sequence: number, count: number) =>
        `${eventRange(sequence, count)} ${are(count)} missing: ` +
        `${sequence === 1 ? 'the log begins with' : `event ${sequence - 1} is followed by`} event ` +
        `${sequence + count}`,
      log_replaced: (source: string, signed: number, held: number, sequence: number) =>
        `${source} was signed over ${entries(signed)}; this log of ${entries(held)} differs from ` +
        `entry ${sequence} on`,
      end_missing: (sequence: number, count: number, source: string, signed: number) =>
        `${entryRange(sequence, count)} ${are(count)} missing from the end of the log, or this is an ` +
        `older copy of it: ${source} was signed over ${entries(signed)}`,
      entries_missing: (source: string, signed: number, held: number, after: number) =>
        `${source} was signed over ${entries(signed)}, but the log holds ${held}: the others are ` +
        'missing from its end ' +
        `or, if entries were renumbered, from anywhere after entry ${after}; or this is an older copy of it`,
    },
  },
  /**
   * The log is not the signed history: entries were inserted, removed or reordered, or the log was rebuilt.
   */
  forked: {
    severity: 'damage',
    subject: 'events',
    says: {
      segment_empty: (file: string) =>
        `${file} holds no event, and others follow it: it was inserted or emptied`,
      segment_overlaps: (file: string, begins: number, due: number) =>
        `${file} begins with event ${begins}, but the segment before it ends with event ${due - 1}: ` +
        'one of them was inserted or renumbered',
      log_differs: () => 'the log is not the one that was signed; the position of the change is unknown',
      log_differs_from: (sequence: number, leaves: number, signed: number, first: string) =>
        `from entry ${sequence} on the log is not the one that was signed: entries were removed, inserted, ` +
        `reordered or all altered; it holds ${leaves}, and ${signed} were signed; the first: ${first}`,
      roots_contradict: (one: string, other: string, size: number) =>
        `${one} and ${other} are both signed by a key of this log over ${entries(size)} but have ` +
        'different roots: the log was forked',
      log_rebuilt: (source: string, size: number, range: string, before: string) =>
        `the log is not the one of ${entries(size)} that ${source} was signed over: it was rebuilt ` +
        `or forked in ${range}; ${before}`,
      log_forked: (source: string, later: string, size: number, range: string, before: string) =>
        `this log and ${source} differ in ${range}; ${before}; both are signed by keys of this log ` +
        `(this log in ${later}, over ${entries(size)}): the log was restored from an old copy, or rebuilt`,
    },
  },
  unreadable: {
    severity: 'damage',
    subject: 'events',
    says: {
      events_unreadable: (sequence: number, count: number, bytes: number) =>
        `${eventRange(sequence, count)} cannot be read: ${counted(bytes, 'byte')} in ` +
        `${count === 1 ? 'its' : 'their'} place ${are(bytes)} not a valid frame`,
      segment_irregular: (file: string) => `${file} is not a regular file and was not opened`,
      root_unknown: (source: string, size: number) =>
        `the log cannot be compared with ${source}, signed over ${entries(size)}: entries cannot be ` +
        'read, and the tree lacks their hashes',
      root_uncertain: (source: string, size: number, range: string) =>
        `the log does not give the root of ${source} over ${entries(size)}; because entries cannot ` +
        `be read, the position of the change is unknown; possible range: ${range}`,
      access_log_unreadable: (file: string, why: string) => `${file} ${why}`,
      head_unknown: (sequence: number) =>
        `entry ${sequence} is an access-log head of an unknown version; its lines were not checked`,
    },
  },
  /** An encrypted payload has no key, and no action destroyed the key. */
  unexplained: {
    severity: 'damage',
    subject: 'events',
    says: {
      key_missing: (events: string) =>
        `${events} cannot be opened: the key is missing, and no action in the log destroyed it`,
      key_missing_noted: (events: string) =>
        `${events} cannot be opened: the key is missing, and no action in the log destroyed it; a ` +
        'note beside the ' +
        'keys names an erasure but proves nothing; if this log was restored, start the collector, ' +
        'which copies the erasure into the log',
    },
  },
  /** An encrypted payload has a key that an action destroyed. */
  not_erased: {
    severity: 'damage',
    subject: 'events',
    says: {
      key_back: (events: string) =>
        `${events} can be opened, although an action in the log destroyed the keys: the keys are an ` +
        'older copy, and the next start destroys them',
    },
  },
  /** An action erased events under a hold. */
  unlawful: {
    severity: 'damage',
    subject: 'events',
    says: {
      erased_under_hold: (sequence: number, count: number, action: string, why: string) =>
        `${eventRange(sequence, count)} ${count === 1 ? 'was' : 'were'} erased by action ${action}, ` +
        `although ${why}`,
    },
  },
  /** Hashes in `tree/` do not match the log. They are derived: no event is damaged. */
  tile_altered: {
    severity: 'warning',
    subject: 'tree',
    says: {
      level_short: (level: number, there: number) =>
        `tree/level-${level} is cut short: hashes from number ${there} on are missing`,
      hashes_altered: (level: number, index: number, count: number, of: string) =>
        `${count === 1 ? `hash ${index}` : `hashes ${index} to ${index + count - 1}`} of level ${level} ` +
        `${are(count)} not the hash of ${of}: the tree was changed, the log was not`,
    },
  },
  checkpoint_invalid: {
    severity: 'damage',
    subject: 'checkpoint',
    says: {
      checkpoint_unfit: (source: string, why: string, others: number) =>
        `${source} is not a checkpoint of this log: ${why}${more(others)}`,
      no_checkpoint: (path: string) => `${path} holds no complete checkpoint: nothing was compared`,
      checkpoints_unchecked: (count: number) =>
        `${counted(count, 'checkpoint')} cannot be checked: there is no key of the log`,
      newest_by_earlier_key: (source: string) =>
        `${source} is signed only by a key older than the keys given; give the log's first key, or ` +
        'wait for the next checkpoint',
      rotation_missing: (file: string, why: string) => `${file}: ${why}`,
      rotation_unfit: (number: number, why: string) =>
        `--key: rotation note number ${number} cannot be followed: ${why}`,
      keys_broken: (why: string) => why,
    },
  },
  checkpoint_missing: {
    severity: 'damage',
    subject: 'checkpoint',
    says: {
      latest_missing: (file: string, held: number) =>
        `${file} is missing, although the log holds ${entries(held)}`,
      unsigned_for_long: (count: number, sequence: number, since: string) =>
        `${entries(count)} from number ${sequence} on ${are(count)} not covered by a checkpoint; the ` +
        'oldest was ' +
        `received at ${since}, more than an hour before the newest: signing stopped, or checkpoints ` +
        'were removed',
      given_out: (size: number, largest: number, file: string) =>
        `checkpoints over more than ${size} entries were sent to sinks (${file} says ${largest})`,
      first_key_missing: (file: string) =>
        `${file}, the first verifier key of the log, is missing: restore it, or give it by --key`,
    },
  },
  /** `access.log` does not match the heads in the log. */
  access_log_altered: {
    severity: 'damage',
    subject: 'access log',
    says: {
      lines_altered: (file: string, sequence: number, first: number, last: number, after: string) =>
        `${first === last ? `line ${last}` : `lines ${first} to ${last}`} of ${file} do not match entry ` +
        `${sequence} of the log: lines were altered, removed, inserted or reordered${after}`,
      lines_missing: (file: string, sequence: number, said: number, had: number, after: string) =>
        `${file} has ${counted(had, 'whole line')}, but entry ${sequence} of the log covers ${said}: ` +
        `the others are missing${after}`,
      lines_fewer: (file: string, sequence: number, said: number, after: string) =>
        `entry ${sequence} of the log covers ${counted(said, 'line')}, fewer than the head before ` +
        `it: ${file} was ` +
        `shorter then${after}`,
      heads_differ: (file: string, sequence: number, most: number) =>
        `entry ${sequence} of the log contradicts entry ${most} about the lines of ${file}: lines were ` +
        'removed or altered before the file was moved away',
      line_foreign: (file: string, line: number, others: number, writer: string) =>
        foreignLine(file, line, others, writer),
    },
  },
  /** Entries in a database that have no position in the log: nothing proves them. */
  not_signed: {
    severity: 'warning',
    subject: 'order',
    says: {
      batches_not_signed: (count: number, lane: number, batches: number, batch: number, why: string) =>
        `${withoutPlace(count, lane, batches)}: batch ${batch}: ${why}; see collector store ` +
        'quarantine --dry-run',
    },
  },
  /** A remark that is not a fault. */
  note: {
    severity: 'ok',
    subject: 'events',
    says: {
      tail_torn: (bytes: number) =>
        `${counted(bytes, 'byte')} after the last event, most likely of a batch that was never ` +
        'acknowledged; unless a collector is writing them, the next start moves them to ledger/torn',
      bytes_unused: (bytes: number) => `${counted(bytes, 'byte')} that are not an event and are never read`,
      first_difference: (sequence: number, proven: number, after: string) =>
        `first mismatch: entry ${sequence}; ` +
        (proven === 0 ? 'no entry before it is proved' : `entries up to ${proven} are proved`) +
        `; ${after}`,
      tree_missing: (eventsStand: boolean) =>
        'tree/ does not exist; ' +
        (eventsStand
          ? 'the next start rebuilds it'
          : 'it would show more precisely which events have changed'),
      tree_derived: () =>
        'the events are those that were signed, and the hashes in tree/ are derived from them: ' +
        'remove tree/ while no collector runs, and the next start rebuilds it',
      keys_unfit: (why: string) => `no payload was opened: ${why}`,
      keys_destroyed_later: (events: number) =>
        `${counted(events, 'event')} cannot be opened: an erasure newer than this copy destroyed their keys`,
      quarantined: (batches: number, ids: number) =>
        `${counted(batches, 'batch', 'batches')} and ${counted(ids, 'id')} are quarantined: no ` +
        'collector stored them',
      nothing_signed: () => 'no entry is stored or signed yet',
      unsigned: (count: number, sequence: number, since: string) =>
        `${entries(count)} from number ${sequence} on ${are(count)} not covered by a checkpoint yet; ` +
        `the oldest was received at ${since}`,
      sinks_unread: (file: string, why: string) => `${file} cannot be read and was not compared: ${why}`,
      checkpoint_passed_over: (source: string, why: string, others: number) =>
        `${source} was ignored: ${why}${more(others)}`,
      signed_by_earlier_keys: (source: string, others: number) =>
        `${source}${others === 0 ? '' : ` and ${others} more`}: signed only by keys older than those ` +
        'given; compared with the log',
      key_of_another_log: (origin: string) => `--key: key ignored: it belongs to the log ${origin}`,
      line_foreign_shared: (file: string, line: number, others: number, writer: string) =>
        foreignLine(file, line, others, writer),
      file_not_closed: (file: string) =>
        `no entry of the log closes ${file}: it must stay in the data directory, or it is of another log`,
      lines_torn: (file: string, lines: number) =>
        `${counted(lines, 'line')} of ${file} ${are(lines)} torn, as by a crash or a full disk`,
      last_line_torn: (file: string, bytes: number) =>
        `the last ${counted(bytes, 'byte')} of ${file} are a torn line, or one that is being written`,
      batches_without_place: (count: number, lane: number, batches: number) =>
        withoutPlace(count, lane, batches),
    },
  },
} as const satisfies Readonly<Record<string, Entry>>;

function foreignLine(file: string, line: number, others: number, writer: string): string {
  const rest = others === 0 ? '' : `, and ${others} more ${are(others)} not`;
  const by = writer === '' ? '' : `: the database role ${writer} wrote it`;
  return `line ${line} of ${file} was not written by a collector${rest}${by}`;
}

function withoutPlace(count: number, lane: number, batches: number): string {
  return (
    `${entries(count)} of lane ${lane}, in ${counted(batches, 'batch', 'batches')}, ${have(count)} ` +
    `no position in the log and ${are(count)} not signed yet`
  );
}

/** All sentences by name. Names are unique across kinds. */
const SENTENCES = {
  ...FINDINGS.altered.says,
  ...FINDINGS.missing.says,
  ...FINDINGS.forked.says,
  ...FINDINGS.unreadable.says,
  ...FINDINGS.unexplained.says,
  ...FINDINGS.not_erased.says,
  ...FINDINGS.unlawful.says,
  ...FINDINGS.tile_altered.says,
  ...FINDINGS.checkpoint_invalid.says,
  ...FINDINGS.checkpoint_missing.says,
  ...FINDINGS.access_log_altered.says,
  ...FINDINGS.not_signed.says,
  ...FINDINGS.note.says,
};
const KIND_OF = new Map(
  Object.entries(FINDINGS).flatMap(([kind, { says }]) =>
    Object.keys(says).map((name) => [name, kind as VerifyKind] as const),
  ),
);

type FindingName = keyof typeof SENTENCES;

/** Makes a finding of the table. @param place its members in the order in which `--json` prints them. */
export function finding<Name extends FindingName>(
  name: Name,
  place: FindingPlace,
  ...facts: Parameters<(typeof SENTENCES)[Name]>
): VerifyFinding {
  const kind = KIND_OF.get(name);
  assert(kind !== undefined);
  const says = SENTENCES[name] as (...facts: unknown[]) => string;
  const { file, offset } = place;
  const where = file === undefined || offset === undefined ? '' : `; ${file}, byte ${offset}`;
  return { kind, ...place, message: says(...facts) + where };
}

/** The finding for the first of `count` entries, extended to all of them. */
export function forAll(first: VerifyFinding, sequence: number, count: number): VerifyFinding {
  if (count === 1) return first;
  const others =
    `${entryRange(sequence + 1, count - 1)} ${count === 2 ? 'differs' : 'differ'} from ` +
    'the signed log too';
  return { ...first, message: `${first.message}; ${others}` };
}

/** Collects findings. */
export interface FindingList {
  add(...found: readonly VerifyFinding[]): void;
  /** Records that the log was proved to be the signed one; the absence of findings does not prove it. */
  confirm(): void;
  /** Number of findings other than notes. */
  readonly faults: number;
  /** Number of faults that are counted but not listed. */
  unlisted: number;
}

export const ok = (subject: string, message: string): StoreFinding => ({ severity: 'ok', subject, message });
export const warning = (subject: string, message: string): StoreFinding => ({
  severity: 'warning',
  subject,
  message,
});
export const damage = (subject: string, message: string): StoreFinding => ({
  severity: 'damage',
  subject,
  message,
});

const NOT_COMPARED = 'it was not compared with the log';
const REBUILD = 'the next command that needs it, or the collector, rebuilds it';

/** The checks of `doctor` that are not findings of `verify`. */
export const CHECKS = {
  directory_exposed: (why: string) => warning('directory', why),
  directory_open: (directory: string, group: string) =>
    ok('directory', `${directory}, events and proofs in it are open to the group ${group} (--read-group)`),
  directory_private: (directory: string) => ok('directory', `${directory}, only its owner has access`),
  lock_faulty: (why: string) => damage('lock', why),
  lock_held: () => ok('lock', 'a collector is running on it'),
  lock_free: () => ok('lock', 'no collector is running on it'),
  disk_read_only: () => ok('disk', 'read-only, such as a snapshot: no event can be stored'),
  disk_free: (gibibytes: string) => ok('disk', `${gibibytes} GiB free`),
  disk_low: (gibibytes: string) =>
    warning('disk', `${gibibytes} GiB free; when the disk is full, events are refused`),
  mirror: (store: string) => ok('mirror', `of ${store}: accepts no events and signs nothing`),
  keys_lost: (why: string) => warning('keys', `${why}; no collector starts`),
  keys_missing: () =>
    warning(
      'keys',
      'there are no keys: no event can be sent; the next start creates one with all permissions',
    ),
  keys_readable: (count: number) => ok('keys', `${counted(count, 'key')} can be read`),
  keys_damaged: (why: string) => damage('keys', why),
  keys_unreadable: (why: string) => warning('keys', why),
  events_none: () => ok('events', 'none yet: no collector has run here'),
  events_checked: (count: number) => ok('events', `${counted(count, 'event')}, each checked`),
  events_unopened: (count: number, unopened: number) =>
    warning(
      'events',
      `${counted(count, 'event')}, each checked, except ${counted(unopened, 'payload')} that could ` +
        'not be opened: there are no keys',
    ),
  events_unlisted: (count: number) => damage('events', `${count} more findings: see collector verify`),
  tail_whole: () => ok('tail', 'ends after a whole event'),
  tail_torn: (why: string) => warning('tail', why),
  tails_kept: (count: number) =>
    warning(
      'torn tails',
      `${count} kept in ledger/torn: bytes of unacknowledged batches, cut off by earlier starts`,
    ),
  index_missing: () => warning('id index', 'missing; the next start rebuilds it from the events'),
  index_beyond: (covered: number, bytes: number) =>
    damage(
      'id index',
      `it covers ${covered} bytes of events, but the log has ${bytes}: durable events are missing ` +
        'from its end (if the index is of another copy of this ledger, delete index/)',
    ),
  index_damaged: () => warning('id index', 'damaged in part; the next start rebuilds that part'),
  index_in_memory: (bytes: number) =>
    ok('id index', `in step: the newest ${bytes} bytes are in the collector's memory`),
  index_covers: (covered: number, bytes: number) => {
    const rest =
      covered < bytes ? `; the next start adds the events of the last ${bytes - covered} bytes` : '';
    return ok('id index', `covers ${covered} of ${bytes} bytes${rest}`);
  },
  catalogue_none: () => ok('catalogue', `none yet; ${REBUILD}`),
  catalogue_old: () => ok('catalogue', `of another version; ${REBUILD}`),
  catalogue_closed: () =>
    warning('catalogue', `${NOT_COMPARED}: its names are encrypted, and their key is not here`),
  catalogue_changed: () => ok('catalogue', `a command wrote it meanwhile; ${NOT_COMPARED}`),
  catalogue_of_damage: () => ok('catalogue', `${NOT_COMPARED}, which is damaged`),
  catalogue_unread: (why: string) => warning('catalogue', `${NOT_COMPARED}: ${why}`),
  catalogue_wrong: (what: string) =>
    warning('catalogue', `${what}: derived; delete catalogue/, also while a collector runs`),
  catalogue_same: (records: number, through: number) =>
    ok('catalogue', `${counted(records, 'record')} up to entry ${through}, all equal to the log`),
  catalogue_record: (what: string) => warning('catalogue', what),
  signing_key_unknown: (why: string) => damage('signing key', why),
  signing_key_none: (why: string) => ok('signing key', why),
  signing_key_missing: (file: string) =>
    warning(
      'signing key',
      `${file} does not exist, and without it no collector starts; after a restore, copy it back; if ` +
        'a program signs, give doctor the same --signing-keys command:PROGRAM',
    ),
  signing_key_denied: (file: string) => warning('signing key', `this user may not read ${file}`),
  signing_key_unfit: (why: string) => damage('signing key', `${why}; no collector starts with it`),
  signing_key_exposed: (why: string) => warning('signing key', why),
  signing_key_private: (file: string) => ok('signing key', `${file}, only its owner has access`),
  signer_faulty: (why: string) => warning('signing key', `--signing-keys: ${why}`),
  signer: (program: string, key: string) => ok('signing key', `signs by ${program}: ${key}`),
  checkpoint_none: () => ok('checkpoint', 'none yet, the log is empty; the next start signs the first one'),
  checkpoint: (size: number, origin: string, rest: string) =>
    ok('checkpoint', `over ${entries(size)}, signed as ${origin}${rest}`),
  checkpoint_late: (size: number, origin: string, waiting: number, since: string, why: string) =>
    warning(
      'checkpoint',
      `over ${entries(size)}, signed as ${origin}; ${entries(waiting)} after them wait since ` +
        `${since}: ${why}`,
    ),
  checkpoint_failed: (since: string, why: string) =>
    warning('checkpoint', `no checkpoint could be signed since ${since}: ${why}`),
  checkpoint_unknown: (why: string) => warning('checkpoint', why),
  tree_same: () => ok('tree', 'gives the root that was signed'),
  tree_wrong: (repair: string) =>
    warning('tree', `does not give the root that was signed: ${repair} rebuilds it`),
  access_log: (what: string) => ok('access log', what),
  access_log_noted: (what: string) => warning('access log', what),
  sink_none: () =>
    warning(
      'sink',
      'checkpoints stay on this host, which could rewrite its log undetected: configure --checkpoint-sink',
    ),
  sink_unknown: (why: string) => warning('sink', why),
} as const satisfies Readonly<Record<string, (...facts: never[]) => StoreFinding>>;

/** A finding of `verify` as `doctor` prints it. */
export function asCheck({ kind, message }: VerifyFinding): StoreFinding {
  const { severity, subject } = FINDINGS[kind];
  return { severity, subject, message };
}
