/** `collector verify`: whether the log is the one that was written, or else what became of it. Changes nothing. */
import fs from 'node:fs';
import path from 'node:path';
import { styleText } from 'node:util';
import { KeyMalformed } from '@clinical-events/protocol/verify';
import { Command } from 'commander';
import type { Config } from '../config.js';
import { exists, nodeFiles } from '../store/embedded/files.js';
import { counted } from '../store/embedded/inspection.js';
import { checkpointDirectory } from '../store/embedded/tree-files.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { usage } from './key-arguments.js';
import { printable, printableJson } from './printable.js';
import { ProgressBar } from './progress-bar.js';
import { logKey } from './signed-checkpoints.js';
import { alignedTable } from './table.js';
import { verifyLog, type Verification } from './verification.js';

const EXAMPLES = `
Examples:
  $ collector verify
  $ collector verify --against /mnt/worm/checkpoints --key log.vkey
  $ collector verify --data-dir /mnt/snapshot --against march.checkpoint --json | jq .findings

Reads all that is stored, without changing anything, beside a running collector or without one. Checks each event
against the tree, the tree against every checkpoint, and every checkpoint's signature.

What lies in the data directory alone proves little against whoever can write there. Give checkpoints that were kept
elsewhere by --against (a file with one or more, or a directory of such files), and by --key the log's verifier key as
you got it, from which rotation notes are followed.

Exit codes: 0 intact, 3 something else was found, 6 there is no log, or no such file, 1 something could not be read, so
that nothing can be said.`;

/** Fewer events than this are read before anybody wonders. */
const BAR_FROM_EVENTS = 200_000;

interface VerifyOptions {
  readonly against?: readonly string[];
  readonly key?: readonly string[];
  readonly json?: true;
}

export function command(): Command {
  const collect = (value: string, before: readonly string[] = []) => [...before, value];
  const verify = new Command('verify')
    .description('Prove that the log is the one that was written, or say what became of it.')
    .option('--against <path>', 'checkpoints that were kept elsewhere; may be given again', collect)
    .option(
      '--key <vkey>',
      'a verifier key of the log that you trust, or a file with one; may be given again',
      collect,
    )
    .option('--json', 'print what was found as one JSON object');
  return addConfigOptions(verify, 'verify')
    .addHelpText('after', EXAMPLES)
    .action((options: VerifyOptions, self: Command) => {
      process.exitCode = examine(configOf(self, 'verify'), options);
    });
}

/** @returns the exit code. */
function examine({ dataDir }: Config, options: VerifyOptions): number {
  const { against = [], json = false } = options;
  const keys = (options.key ?? []).flatMap(keysFrom);
  if (!exists(dataDir)) throw new CommandFailure(`there is no directory ${dataDir}`, EXIT.notFound);
  if (!holdsLog(dataDir)) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  const bar = new ProgressBar({
    ...{ wanted: !json && process.stderr.isTTY, unit: 'events', per: 1, from: BAR_FROM_EVENTS, rate: true },
  });
  let verification: Verification;
  try {
    verification = verifyLog({ dataDir, files: nodeFiles, against, keys, onProgress: bar.show });
  } finally {
    bar.clear();
  }
  process.stdout.write(json ? asJson(verification) : report(verification, against.length > 0));
  return verification.findings.intact ? EXIT.ok : EXIT.damaged;
}

/** What was given is never repeated in a message: it may be another key, and a secret one. */
function keysFrom(given: string): string[] {
  const named = given.startsWith('@') ? given.slice(1) : undefined;
  if (named === undefined && !fs.existsSync(given)) return [verifierKey(given, 'it is no file either, and')];
  const file = named ?? given;
  if (!exists(file)) throw new CommandFailure(`there is no file ${file}`, EXIT.notFound);
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  const keys = lines.map((line) => line.trim()).filter((line) => line !== '');
  if (keys.length === 0) throw usage(`--key: ${file} is empty`);
  return keys.map((key) => verifierKey(key, `${file}:`));
}

function verifierKey(text: string, where: string): string {
  try {
    return logKey(text).vkey;
  } catch (error) {
    if (error instanceof KeyMalformed)
      throw usage(`--key: that is no verifier key; ${where} ${error.message}`);
    throw error;
  }
}

/** Segments, or a checkpoint, which says that there were some. */
function holdsLog(dataDir: string): boolean {
  const holds = (directory: string, isOne: RegExp) =>
    exists(directory) && fs.readdirSync(directory).some((name) => isOne.test(name));
  return (
    holds(path.join(dataDir, 'ledger'), /\.segment$/) ||
    holds(checkpointDirectory(dataDir), /^latest$|\.checkpoint$/)
  );
}

/** For scripts; the names are a promise. */
function asJson({ findings, events, unsigned, keys, checkpoints }: Verification): string {
  const { newest, checked } = checkpoints;
  const told = {
    intact: findings.intact,
    events,
    origin: newest?.origin ?? keys.keys[0]?.name ?? null,
    size: newest?.size ?? null,
    root: newest?.root.toString('base64') ?? null,
    checkpoints_checked: checked,
    keys_from: keys.from,
    unsigned_events: unsigned,
    findings: findings.listed,
    findings_not_listed: findings.unlisted,
  };
  return `${printableJson(JSON.stringify(told, undefined, 2))}\n`;
}

/** For people: the verdict first. */
function report(verification: Verification, against: boolean): string {
  const { findings, events, unsigned, keys, checkpoints } = verification;
  const { newest, checked } = checkpoints;
  const verdict = findings.intact
    ? `${styleText('green', 'INTACT', { stream: process.stdout })}: ${intactText(verification)}`
    : `${styleText('red', 'NOT INTACT', { stream: process.stdout })}: ${counted(findings.faults, 'finding')}`;
  const rows = [
    ['Log', printable(newest?.origin ?? keys.keys[0]?.name ?? 'unknown')],
    ['Events', `${events}${unsigned === 0 ? '' : `, ${unsigned} of them not yet under a checkpoint`}`],
    [
      'Checkpoint',
      newest === undefined ? 'none' : `${newest.size} events, root ${newest.root.toString('base64')}`,
    ],
    [
      'Checked',
      `${counted(checked, 'checkpoint')}, by ${keys.from === 'given' ? 'the keys given' : 'the keys in the data directory'}`,
    ],
  ];
  const [first = [], ...others] = rows;
  const lines = findings.listed.map(({ kind, message }) => `${kind.replace('_', ' ')}: ${message}\n`);
  if (findings.unlisted > 0) lines.push(`and ${findings.unlisted} more that are not listed\n`);
  return [
    `${verdict}\n\n`,
    alignedTable([first, ...others]),
    ...(lines.length > 0 ? ['\n', ...lines] : []),
    ...caveats(keys.from === 'given', against),
  ].join('');
}

function intactText({ events, unsigned }: Verification): string {
  const signed = events - unsigned;
  if (events === 0) return 'no event was stored, and none was signed';
  return unsigned === 0
    ? `the ${counted(events, 'event')} of the log ${events === 1 ? 'is the one' : 'are those'} that were signed, in this order`
    : `the first ${counted(signed, 'event')} of the log are those that were signed, in this order`;
}

/** What the verdict does not rest on. */
function caveats(keysGiven: boolean, against: boolean): string[] {
  const lines: string[] = [];
  if (!keysGiven) lines.push('The keys are those that the directory itself holds; give yours by --key.\n');
  if (!against) {
    lines.push(
      'No checkpoint from elsewhere was given (--against): a log that was rebuilt as a whole looks the same.\n',
    );
  }
  return lines.length > 0 ? ['\n', ...lines] : [];
}
