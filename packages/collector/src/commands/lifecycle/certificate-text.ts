/** A certificate of erasure as text, for the file of a case. */
import { counted } from '../../quantity.js';
import { alignedTable, legible, wrappedFor } from '../terminal.js';
import type { Certificate } from './certificate.js';
import type { LeftEvents, Person } from './erasure-record.js';

const METHOD =
  'cryptographic erasure (NIST SP 800-88): the AES-256 key of each event, which also encrypted the salt of ' +
  'its hash, was destroyed';
const NOT_AVAILABLE = 'not available: the erasure record is missing or cannot be decrypted';

export function certificateText(certificate: Certificate, output: NodeJS.WriteStream): string {
  const { action, keys_destroyed, whole } = certificate;
  const line = (text: string) => `${wrappedFor(output, text)}\n`;
  const list = (items: readonly string[]) => items.map((item) => line(`- ${item}`)).join('');
  return [
    keys_destroyed === null
      ? 'ERASURE IN PROGRESS: this is not a certificate\n\n'
      : 'CERTIFICATE OF ERASURE\n\n',
    alignedTable(whatRows(certificate), output),
    '\nWhere the content was, and until when\n',
    alignedTable(placeRows(certificate), output),
    '\nNamed in the plan and not erased by this action\n',
    list([...leftLines(certificate), ...(whole ? [] : [NOT_WHOLE])]),
    '\nNot covered: where the content may still exist\n',
    list(notCovered(certificate)),
    '\nHow to check\n',
    line(
      `Method: ${METHOD}. The leaf of each event stays in the log, so all proofs of the log remain valid.`,
    ),
    ...entriesOf(certificate).map(({ sequence, id, does }) =>
      line(
        `The entry ${does}: collector events --event ${sequence} | jq -j .body > ${sequence}.json. Its ` +
          `proof: collector proof ${id} --out ${sequence}.proof.`,
      ),
    ),
    line(
      'collector check-proof NUMBER.proof --event NUMBER.json --key KEY checks each on another computer, ' +
        'without this log. KEY is the verifier key of the log, obtained from someone who keeps it outside ' +
        'this host (docs/guide/prove.md). The entries contain the numbers of the erased events, and the ' +
        `hashes of the plan and its marks; the JSON certificate (collector erase --certificate ${action} ` +
        '--json) has the id and the number of each event.',
    ),
  ].join('');
}

function entriesOf({ entries, done_entry }: Certificate) {
  const orders = entries.map((entry) => ({ ...entry, does: 'that orders the erasure' }));
  const done = { does: 'that records the destruction of the keys in every directory' };
  return done_entry === null ? orders : [...orders, { ...done_entry, ...done }];
}

const NOT_WHOLE =
  'more events, of unknown number: a hold or a policy was set before all parts of the action had begun';

function whatRows(certificate: Certificate): string[][] {
  const { action, reason, log, mirror_of, organisations, plan, marks, checkpoint, tool } = certificate;
  const { events, events_by_kind, runs, first_received, last_received, mentions } = certificate;
  const kinds = Object.entries(events_by_kind).map(([kind, count]) => `${count} ${kind}`);
  const entries = [...certificate.entries, certificate.done_entry].filter((entry) => entry !== null);
  return [
    ...whoRows(certificate),
    ['Reason', reason],
    ['Action', action],
    ['Log', mirror_of === null ? log : `${log}, in ${mirror_of}`],
    ['Organisations', organisations.map(legible).join(', ')],
    ['Erased', `${counted(events, 'event')} (${kinds.join(', ')}) of ${counted(runs, 'run')}`],
    [
      'Received by the collector',
      first_received === last_received ? `${first_received}` : `${first_received} to ${last_received}`,
    ],
    ...rowIf(mentions, 'Mentions', (number) => {
      return `${counted(number, 'event')} of these belong to runs about others and mention the person`;
    }),
    ...rowIf(plan, 'Plan', (hash) => `SHA-256 ${hash}`),
    ...rowIf(marks, 'Marks in the plan', (hash) => `SHA-256 ${hash}`),
    ...rowIf(
      certificate.set_by_hand,
      'Marks set by hand',
      ({ marked, unmarked }) => `${marked} set, ${unmarked} removed`,
    ),
    ...overrideRows(certificate),
    ['Entries of the log', entries.map(({ sequence, id }) => `${sequence} (${id})`).join(', ')],
    [
      'Checkpoint',
      checkpoint === null
        ? 'not yet covered by a checkpoint'
        : `signed by the log over ${checkpoint.size} entries, root ${checkpoint.root}` +
          (checkpoint.cosigned_by.length === 0 ? '' : `, cosigned by ${checkpoint.cosigned_by.join(', ')}`),
    ],
    ['Printed', `${certificate.printed}, by ${tool}`],
  ];
}

function rowIf<Value>(value: Value | null, name: string, text: (value: Value) => string): string[][] {
  return value === null || value === 0 ? [] : [[name, text(value)]];
}

function whoRows({ policy, rule, case: reference, planner, applier }: Certificate): string[][] {
  if (policy !== null)
    return [['Decided by', `rule ${legible(rule ?? '')} of the retention policy set by action ${policy}`]];
  return [
    ['Case', reference === null ? NOT_AVAILABLE : legible(reference)],
    ['Planned by', personText(planner)],
    ['Applied by', personText(applier)],
  ];
}

function personText(person: Person | null): string {
  if (person === null) return NOT_AVAILABLE;
  const { name, isProven, at } = person;
  return `${legible(name)} (${isProven ? 'logged in to the host' : 'as stated, not verified'}), ${at}`;
}

function overrideRows({ floors_overridden, overridden, incomplete, unread }: Certificate): string[][] {
  const floors = (overridden ?? []).map(({ of = '', until, events }) => {
    return `${counted(events, 'event')} kept by the floor ${legible(of)}${untilText(until)}`;
  });
  const payloads = unread === null ? 'payloads' : counted(unread, 'payload');
  return [
    ...(floors_overridden ? [['Overridden', floors.join(', ') || 'floors of the retention policy']] : []),
    ...(incomplete ? [['Incomplete', `${payloads} could not be decrypted when it was planned`]] : []),
  ];
}

function placeRows(certificate: Certificate): string[][] {
  const { keys_destroyed, directories, key_wrapped_by, mirror_of, copies, left_out } = certificate;
  const copied = copies.map(({ made, until }) => `made ${made}, to be destroyed by ${until}`);
  const taken = left_out.map(
    ({ directory, since }) => `${legible(directory)}, not in use since ${since}: it may still contain keys`,
  );
  const now = counted(directories, 'directory', 'directories');
  const mirrored = mirror_of === null ? '' : ' of this mirror and in the key database';
  return [
    [
      'Keys destroyed',
      keys_destroyed === null
        ? `not yet: ${awayText(certificate)}`
        : `${keys_destroyed}, in every directory that was in use then (now ${now})${mirrored}, wrapped by ` +
          legible(key_wrapped_by),
    ],
    ...(mirror_of === null ? [] : [['Mirrors', mirrorsText(certificate)]]),
    ['Viewers', viewersText(certificate)],
    ['Encrypted bytes removed', bytesText(certificate)],
    [
      'Copies of keys',
      [...copied, ...taken].join('; ') || 'none on record; copies made by other means are unknown',
    ],
    [
      'Replaced key files',
      certificate.key_epoch_ended === null
        ? 'old versions of key files may be recoverable from disks until the next key epoch, which begins ' +
          '12 hours after the erasure (immediately with collector encryption-keys rotate)'
        : 'the key for old versions of key files, which may be recoverable from disks, was destroyed ' +
          certificate.key_epoch_ended,
    ],
  ];
}

function awayText({ keys_away, mirror_of }: Certificate): string {
  const there =
    mirror_of === null
      ? 'all key directories can be reached now'
      : 'the key database cannot be reached, or this mirror has not followed';
  const what = keys_away.length > 0 ? `${keys_away.map(legible).join(', ')} cannot be reached` : there;
  return `${what}. The remaining keys are destroyed; this is retried automatically while a collector runs`;
}

function mirrorsText({ mirrors }: Certificate): string {
  const each = mirrors.map(({ mirror, followed }) => followedText(mirror, followed));
  return each.join('; ') || 'none has reported yet';
}

/** A viewer may have reported in a file that is not in the data directory. */
function viewersText({ viewers, access_log_missing: missing = [] }: Certificate): string {
  const isIncomplete = missing.length > 0;
  const incomplete = `access log incomplete: ${missing.join(', ')} not in the data directory`;
  const each = viewers.map(({ viewer, followed }) =>
    followed === null && isIncomplete
      ? `${legible(viewer)}: not known whether it followed`
      : followedText(viewer, followed),
  );
  const none = isIncomplete ? [] : ['none has reported'];
  return [...(each.length > 0 ? each : none), ...(isIncomplete ? [incomplete] : [])].join('; ');
}

function followedText(id: string, followed: string | null): string {
  return followed === null ? `${legible(id)} has not followed yet` : `${legible(id)} followed ${followed}`;
}

function bytesText({ bytes_removed, bytes_left, mirror_of }: Certificate): string {
  if (bytes_removed !== null) return `${bytes_removed}, from the data directory`;
  if (bytes_left === 0) return 'this data directory contains no encrypted bytes of these events';
  const who = mirror_of === null ? 'the collector' : 'collector mirror';
  return `pending for ${counted(bytes_left, 'event')}; ${who} removes them within a day while it runs`;
}

function leftLines({ left, policy }: Certificate): string[] {
  if (left === null) return [policy === null ? NOT_AVAILABLE : 'none: there was no plan'];
  return left.length === 0 ? ['no events'] : left.map(leftText);
}

function leftText({ why, of = '', until, events }: LeftEvents): string {
  const reason = {
    hold: `on hold by ${legible(of)}${untilText(until)}`,
    floor: `kept by the floor ${legible(of)} of the retention policy${untilText(until)}`,
    'not marked': `not marked in the plan${of === '' ? '' : `: ${legible(of)}`}`,
    'stored in the clear': 'stored unencrypted, without a key to destroy',
  }[why];
  return `${counted(events, 'event')} ${reason}`;
}

function untilText(until: string | undefined): string {
  return until === undefined ? '' : ` until ${until.slice(0, 10)}`;
}

function notCovered({ action, mirror_of }: Certificate): string[] {
  return [
    'exports, records and reports that were produced (access.log has the user and time of each command)',
    'copies kept by senders: spools, quarantines and their own records; reject files of collector import',
    'content that an event only references, such as files of the content store',
    'events that came after the plan: collector erase plan --subject-file finds new runs, collector erase ' +
      `plan --late ${action} finds later events of the erased runs`,
    'the envelope of each event, which is kept: kind, organisation, API key, times, ids of events and ' +
      'runs; and the erasure record',
    'back-ups: those of collector backup contain the encrypted events without keys; copies of whole ' +
      'directories may contain keys',
    'older copies of the data directory: they contain ids and times of the erased runs, and names together ' +
      'with the keys of that time',
    ...(mirror_of === null
      ? []
      : [
          'other mirrors of the log: each destroys its own keys when it follows, and compacts its own data ' +
            'directory',
          'the database of the log: collector store maintain removes the encrypted bytes',
          'the write-ahead log, base back-ups and standbys of the key database, which must be deleted ' +
            'within a week',
        ]),
  ];
}
