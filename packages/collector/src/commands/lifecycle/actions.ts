/** `collector actions`: what was done to stored events, as the log says it, and the certificates of erasures. */
import { Command } from 'commander';
import { type Actions, eventsOf } from '../../privacy/actions.js';
import { openStore } from '../../store/open-to-read.js';
import { addConfigOptions, idFrom } from '../arguments.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { assertReadable } from '../regular-files.js';
import { alignedTable, printableJson } from '../terminal.js';
import { certificateOf, certificateText } from './certificate.js';
import { lifecycleConfigOf } from './delivery.js';

const EXAMPLES = `
Examples:
  $ collector actions
  $ collector actions list --json | jq 'select(.state == "pending")'
  $ collector actions certificate 018f6f6e-8c2b-4cc0-9f6e-2f1d3a4b5c6d

Actions are entries of the log, under its checkpoints like every event: erasures, holds, policies, epochs of keys. None of
them names a person. One that is pending was begun, and is tried again while a collector runs: a directory of keys
cannot be reached.`;

/** The names are a promise to programs. */
interface ActionLine {
  readonly action: string;
  readonly does: string;
  readonly reason: string | null;
  readonly rule: string | null;
  readonly events: number | null;
  readonly sequence: number;
  readonly entry_id: string;
  readonly at: string;
  readonly state: 'done' | 'pending';
}

export function command(): Command {
  const list = addConfigOptions(
    new Command('list')
      .description('List what was done to stored events, the oldest first.')
      .option('--json', 'print one JSON object a line'),
    'lifecycle',
  )
    .addHelpText('after', EXAMPLES)
    .action((options: { json?: true }, self: Command) => {
      const { dataDir } = lifecycleConfigOf(self);
      assertReadable(dataDir);
      const lines = linesOf(openStore(dataDir).events.actions?.());
      process.stdout.write(options.json ? lines.map(jsonLine).join('') : tableOf(lines));
      if (lines.length === 0) process.stderr.write('collector: no action is in the log\n');
    });
  const certificate = addConfigOptions(
    new Command('certificate')
      .description('Print the certificate of an erasure, as it stands by now.')
      .argument('<action>', 'its id, as collector erase and collector actions print it')
      .option('--json', 'print it as one JSON object'),
    'lifecycle',
  )
    .addHelpText('after', EXAMPLES)
    .action(async (id: string, options: { json?: true }, self: Command) => {
      const { dataDir } = lifecycleConfigOf(self);
      assertReadable(dataDir);
      const made = await certificateOf(dataDir, idFrom('<action>', id));
      process.stdout.write(
        options.json ? `${printableJson(JSON.stringify(made, undefined, 2))}\n` : certificateText(made),
      );
      if (made.gone_from_log === null) throw new CommandFailure('it is not at its end yet', EXIT.pending);
    });
  return new Command('actions')
    .description('Say what was done to stored events, as the log has it.')
    .addCommand(list, { isDefault: true })
    .addCommand(certificate);
}

function linesOf(actions: Actions | undefined): ActionLine[] {
  const lines: ActionLine[] = [];
  const told = new Set<string>();
  for (const { said, sequence, entryId, at } of actions?.logged ?? []) {
    // Of several parts the first that is there stands for all.
    if (said.does === 'done' || (said.does === 'retire' && told.has(said.action))) continue;
    told.add(said.action);
    const retire = said.does === 'retire' ? said : undefined;
    const parts = actions?.partsIn(said.action) ?? [];
    lines.push({
      ...{ action: said.action, does: said.does, reason: retire?.reason ?? null, rule: retire?.rule ?? null },
      events: retire === undefined ? null : eventsOf(parts.flatMap(({ keys }) => keys)).size,
      ...{ sequence, entry_id: entryId, at: new Date(at).toISOString() },
      state: retire === undefined || actions?.doneAt(said.action) !== undefined ? 'done' : 'pending',
    });
  }
  return lines;
}

function jsonLine(line: ActionLine): string {
  return `${printableJson(JSON.stringify(line))}\n`;
}

function tableOf(lines: readonly ActionLine[]): string {
  if (lines.length === 0) return '';
  const rows = lines.map(({ action, does, reason, rule, events, sequence, at, state }) => [
    ...[
      action,
      does,
      rule === null ? (reason ?? '-') : `${reason} (${rule})`,
      events === null ? '-' : `${events}`,
    ],
    ...[`${sequence}`, at.slice(0, 16).replace('T', ' '), state],
  ]);
  return alignedTable([['ACTION', 'DOES', 'REASON', 'EVENTS', 'ENTRY', 'AT (UTC)', 'STATE'], ...rows]);
}
