/** The result of a verification, for programs and for people. */
import { styleText } from 'node:util';
import { counted } from '../../quantity.js';
import { alignedTable, printable, wrappedFor } from '../terminal.js';
import { accessLogText, type AccessLogState } from './access-log-check.js';
import type { Verification } from './verification.js';

const whatToDo = (log: string) =>
  `What to do: docs/INTEGRITY.md, "When something is found". Keep the ${log} as it is.`;

/** The output for programs, which rely on the names. */
export function verificationFields(verification: Verification): object {
  const { findings, events, entries, unsigned, unopened, erased, erasing, keys, checkpoints, access } =
    verification;
  const { unsequenced, quarantined } = verification;
  const { newest, checked } = checkpoints;
  return {
    intact: findings.intact,
    events,
    entries,
    origin: newest?.origin ?? keys.keys[0]?.name ?? null,
    size: newest?.size ?? null,
    root: newest?.root.toString('base64') ?? null,
    checkpoints_checked: checked,
    checkpoints_given: checkpoints.given,
    keys_from: keys.from,
    unsigned_entries: unsigned,
    unsequenced_entries: unsequenced,
    quarantined_batches: quarantined,
    unopened_payloads: unopened,
    erased_events: erased,
    erasing_events: erasing,
    access_log: access === undefined ? null : accessLogOf(access),
    findings: findings.listed,
    findings_not_listed: findings.unlisted,
  };
}

function accessLogOf({ lines, covered, heads, unended, torn, last, unchecked }: AccessLogState) {
  const fields = { lines, unsigned_lines: lines - covered, heads, unended, torn, last_reading: last ?? null };
  return { ...fields, unchecked_files: unchecked };
}

/** The report for people, with the verdict first. */
export function verificationReport(verification: Verification, log = 'directory'): string {
  const { findings, events, entries, unsigned, erased, keys, checkpoints, access } = verification;
  const { newest } = checkpoints;
  const waiting = unsigned === 0 ? '' : `, ${unsigned} of them not yet covered by a checkpoint`;
  const verdict = findings.intact
    ? styleText('green', 'INTACT', { stream: process.stdout }) +
      `${unsigned === 0 ? '' : ' where signed'}: ${intactText(verification)}`
    : `${styleText('red', 'NOT INTACT', { stream: process.stdout })}: ${counted(findings.faults, 'finding')}`;
  const rows = [
    ['Log', printable(newest?.origin ?? keys.keys[0]?.name ?? 'unknown')],
    ['Events', `${events}${entries === events ? waiting : ''}`],
    ...(entries === events ? [] : [['Entries', `${entries}${waiting}`]]),
    ...(Object.keys(erased).length === 0 ? [] : [['Erased', erasedText(erased)]]),
    [
      'Checkpoint',
      newest === undefined
        ? 'none'
        : `${counted(newest.size, 'entry', 'entries')}, root ${newest.root.toString('base64')}`,
    ],
    ['Checked', checkedText(verification)],
  ];
  if (access !== undefined) rows.push(['Access log', accessLogText(access)]);
  const [first = [], ...others] = rows;
  const lines = findings.listed.map(({ kind, message }) => `${kind.replaceAll('_', ' ')}: ${message}`);
  if (findings.unlisted > 0) lines.push(`${findings.unlisted} more are not listed`);
  const paragraphs = [lines, caveats(verification, log)];
  if (!findings.intact) paragraphs.push([whatToDo(log)]);
  return [
    `${verdict}\n\n`,
    alignedTable([first, ...others]),
    ...paragraphs
      .filter(({ length }) => length > 0)
      .map((paragraph) => `\n${paragraph.map((line) => `${wrappedFor(process.stdout, line)}\n`).join('')}`),
  ].join('');
}

/** Counts by reason. */
function erasedText(erased: Verification['erased']): string {
  return Object.entries(erased)
    .map(([reason, events]) => `${counted(events, 'event')} (${reason})`)
    .join(', ');
}

function intactText({ entries, unsigned }: Verification): string {
  const signed = entries - unsigned;
  if (entries === 0) return 'no event was stored or signed';
  if (signed === 0) return 'no entry of the log is covered by a checkpoint yet';
  const first = `the ${unsigned === 0 ? '' : 'first '}${counted(signed, 'entry', 'entries')}`;
  return signed === 1
    ? `${first} of the log is the one that was signed`
    : `${first} of the log are those that were signed, in this order`;
}

function checkedText({ keys, checkpoints: { checked, given } }: Verification): string {
  const by = `by the keys ${keys.from === 'given' ? 'given' : 'in the data directory'}`;
  return given === 0
    ? `${counted(checked, 'checkpoint')}, ${by}`
    : `${counted(checked, 'checkpoint')}: ${given} given, ${checked - given} in the data directory; ${by}`;
}

/** The limits of the verdict. */
function caveats({ keys, checkpoints, unopened, erasing }: Verification, log: string): string[] {
  const lines: string[] = [];
  if (erasing > 0)
    lines.push(
      `The keys of ${counted(erasing, 'event')} are being destroyed; the log does not yet record that ` +
        'this is complete (collector erase --list).',
    );
  if (unopened > 0) {
    lines.push(
      `${counted(unopened, 'payload')} ${unopened === 1 ? 'is' : 'are'} encrypted and ` +
        `${unopened === 1 ? 'was' : 'were'} not decrypted: there are no keys here. Order, number, times ` +
        'and senders of the events were still checked.',
    );
  }
  if (keys.from !== 'given') lines.push('The keys are those in the directory itself; give yours with --key.');
  if (checkpoints.given === 0) {
    lines.push(
      'No checkpoint from elsewhere was compared (--against): a log that was rebuilt entirely would look ' +
        'the same.',
    );
  }
  if (log === 'directory')
    lines.push('The catalogue is derived and not verified: collector doctor compares it with the log.');
  return lines;
}
