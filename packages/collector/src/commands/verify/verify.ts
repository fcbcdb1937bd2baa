/** `collector verify`: whether the log is the one that was written, or else what became of it. Changes nothing but its own note. */
import { styleText } from 'node:util';
import { Command } from 'commander';
import type { Config } from '../../config.js';
import { counted } from '../../quantity.js';
import { exists, nodeFiles } from '../../files.js';
import { writeVerifyResult } from '../../tree/state-files.js';
import { withSharedView } from '../../store/open-to-read.js';
import { isShared } from '../../store/open.js';
import { accessLogText, type AccessLogState } from './access-log-check.js';
import { CommandFailure, EXIT, usage } from '../exit-codes.js';
import { holdsLog } from '../regular-files.js';
import { collect, keysFrom, rotationsIn, logKey } from './trusted-keys.js';
import { printable, printableJson, alignedTable, wrappedFor, ProgressBar } from '../terminal.js';
import { verifyLog, type Verification, type VerificationOptions } from './verification.js';
import { addConfigOptions, configOf } from '../command-line.js';

const EXAMPLES = `
Examples:
  $ collector verify
  $ collector verify --against /mnt/worm/checkpoints --key log.vkey
  $ collector verify --data-dir /mnt/snapshot --against march.checkpoint --json | jq .findings

Reads all that is stored, without changing anything, beside a running collector or without one. Checks each event
against the tree, the tree against every checkpoint, every checkpoint's signature, and the access log against its heads
in the log. With --note it leaves its verdict in checkpoints/verify.json, where a running collector finds it; run it as
the collector's user then.

What lies in the data directory alone proves little against anyone who can write there. Give checkpoints that were kept
elsewhere by --against (a file with one or more, or a directory of such files), and by --key the log's verifier key as
you got it, from which rotation notes are followed: those in the data directory, and those given by --rotations.

Exit codes: 0 intact, 3 something else was found, 6 there is no log, no such file, or no checkpoint in it, 2 a key is
none, or all are of other logs, or the command line is wrong, 1 something could not be read, so that nothing can be
said.`;

/** Fewer events than this are read before anybody wonders. */
const BAR_FROM_EVENTS = 200_000;

const whatToDo = (log: string) =>
  `What to do: docs/INTEGRITY.md, "When something is found". Keep the ${log} as it is.`;

interface VerifyOptions {
  readonly against?: readonly string[];
  readonly key?: readonly string[];
  readonly rotations?: readonly string[];
  readonly json?: true;
  readonly note?: true;
}

export function command(): Command {
  const verify = new Command('verify')
    .description('Prove that the log is the one that was written, or say what became of it.')
    .option('--against <path>', 'checkpoints that were kept elsewhere; may be given again', collect)
    .option(
      '--key <vkey>',
      'a verifier key of the log that you trust, a file with one, or @ and a file; may be given again, for earlier and later keys',
      collect,
    )
    .option(
      '--rotations <path>',
      'rotation notes of the log, besides those in the data directory: a file or a directory; may be given again',
      collect,
    )
    .option('--json', 'print what was found as one JSON object')
    .option('--note', 'leave the verdict in the data directory, for the console and the metrics');
  return addConfigOptions(verify, 'verify')
    .addHelpText('after', EXAMPLES)
    .action(async (options: VerifyOptions, self: Command) => {
      process.exitCode = await examine(configOf(self, 'verify'), options);
    });
}

interface ExaminedLog extends Pick<VerificationOptions, 'dataDir' | 'shared'> {
  /** Where the verdict is left. */
  readonly noted?: string;
}

/** @returns the exit code. */
function examine(config: Config, options: VerifyOptions): Promise<number> {
  const { dataDir } = config;
  if (isShared(config)) {
    if (options.note && !exists(dataDir)) throw usage(`--note: there is no data directory ${dataDir}`);
    return withSharedView(config, (view) => examineLog({ ...view, noted: dataDir }, options));
  }
  if (!exists(dataDir)) throw new CommandFailure(`there is no directory ${dataDir}`, EXIT.notFound);
  if (!holdsLog(dataDir)) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  return examineLog({ dataDir }, options);
}

async function examineLog(
  { dataDir, shared, noted = dataDir }: ExaminedLog,
  options: VerifyOptions,
): Promise<number> {
  const { against = [], json = false } = options;
  const keys = (options.key ?? []).flatMap((key) => keysFrom('--key', key, (text) => logKey(text).vkey));
  const rotations = (options.rotations ?? []).flatMap(rotationsIn);
  const bar = new ProgressBar({
    ...{ wanted: !json && process.stderr.isTTY, unit: 'entries', per: 1, from: BAR_FROM_EVENTS, rate: true },
  });
  let verification: Verification;
  try {
    const onProgress = bar.show;
    const log = { dataDir, shared, files: nodeFiles };
    verification = await verifyLog({ ...log, against, keys, rotations, onProgress });
  } finally {
    bar.clear();
  }
  process.stdout.write(json ? asJson(verification) : verificationReport(verification, shared && 'database'));
  if (options.note) note(noted, verification);
  return verification.findings.intact ? EXIT.ok : EXIT.damaged;
}

/** The verdict counts more than its note: that one could not be left is said, and changes nothing. */
function note(dataDir: string, { findings: { intact }, events }: Verification): void {
  try {
    writeVerifyResult(dataDir, { at: new Date().toISOString(), intact, events });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`collector: the verdict could not be written: ${printable(reason)}\n`);
  }
}

/** For scripts; the names are a promise. */
export function verificationFields(verification: Verification): object {
  const { findings, events, entries, unsigned, unopened, retired, retiring, keys, checkpoints, access } =
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
    retired_events: retired,
    retiring_events: retiring,
    access_log: access === undefined ? null : accessLogOf(access),
    findings: findings.listed,
    findings_not_listed: findings.unlisted,
  };
}

function asJson(verification: Verification): string {
  return `${printableJson(JSON.stringify(verificationFields(verification), undefined, 2))}\n`;
}

function accessLogOf({ lines, covered, heads, unended, torn, last }: AccessLogState) {
  return { lines, unsigned_lines: lines - covered, heads, unended, torn, last_reading: last ?? null };
}

/** For people: the verdict first. */
export function verificationReport(verification: Verification, log = 'directory'): string {
  const { findings, events, entries, unsigned, retired, keys, checkpoints, access } = verification;
  const { newest } = checkpoints;
  const waiting = unsigned === 0 ? '' : `, ${unsigned} of them not yet under a checkpoint`;
  const verdict = findings.intact
    ? `${styleText('green', 'INTACT', { stream: process.stdout })}${unsigned === 0 ? '' : ' as far as it is signed'}: ${intactText(verification)}`
    : `${styleText('red', 'NOT INTACT', { stream: process.stdout })}: ${counted(findings.faults, 'finding')}`;
  const rows = [
    ['Log', printable(newest?.origin ?? keys.keys[0]?.name ?? 'unknown')],
    ['Events', `${events}${entries === events ? waiting : ''}`],
    ...(entries === events ? [] : [['Entries', `${entries}${waiting}`]]),
    ...(Object.keys(retired).length === 0 ? [] : [['Retired', retiredText(retired)]]),
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
  if (findings.unlisted > 0) lines.push(`and ${findings.unlisted} more that are not listed`);
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

/** By their reasons. */
function retiredText(retired: Verification['retired']): string {
  return Object.entries(retired)
    .map(([reason, events]) => `${counted(events, 'event')} (${reason})`)
    .join(', ');
}

function intactText({ entries, unsigned }: Verification): string {
  const signed = entries - unsigned;
  if (entries === 0) return 'no event was stored, and none was signed';
  if (signed === 0) return 'no entry of the log is under a checkpoint yet';
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

/** What the verdict does not rest on. */
function caveats({ keys, checkpoints, unopened, retiring }: Verification, log: string): string[] {
  const lines: string[] = [];
  if (retiring > 0)
    lines.push(
      `The keys of ${counted(retiring, 'event')} are being destroyed; the log does not say yet that none is left (collector erase --list).`,
    );
  if (unopened > 0) {
    lines.push(
      `${counted(unopened, 'payload')} ${unopened === 1 ? 'is' : 'are'} encrypted and ${unopened === 1 ? 'was' : 'were'} not opened: there are no keys here. Order, number, times and senders of the events were checked all the same.`,
    );
  }
  if (keys.from !== 'given')
    lines.push('The keys are those that the directory itself holds; give yours by --key.');
  if (checkpoints.given === 0) {
    lines.push(
      'No checkpoint from elsewhere was compared (--against): a log that was rebuilt as a whole looks the same.',
    );
  }
  if (log === 'directory')
    lines.push('The catalogue is derived and not covered: collector doctor compares it with the log.');
  return lines;
}
