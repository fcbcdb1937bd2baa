/** `collector erase --list` and `--certificate`: the actions in the log. */
import { type Actions, eventsOf } from '../../privacy/actions.js';
import { isHoldKeyEverywhere } from '../../privacy/key-directories.js';
import { notesKeys, readKeyPlaces } from '../../store/key-places.js';
import { openStore } from '../../store/open-to-read.js';
import { idFrom } from '../arguments.js';
import { type ClosedFiles, closedFilesFrom } from '../access-lines.js';
import type { Call } from '../define.js';
import { CommandFailure, EXIT, usage } from '../exit-codes.js';
import { assertReadable } from '../regular-files.js';
import { alignedTable, jsonLine, jsonText } from '../terminal.js';
import { certificateOf } from './certificate.js';
import { certificateText } from './certificate-text.js';

export interface ErasureOptions {
  readonly list?: true;
  readonly certificate?: string;
  readonly accessLog?: readonly string[];
  readonly json?: true;
}

/** @throws CommandFailure, also if an erasure is pending: the output is then not a certificate. */
export async function showErasures(
  { list, certificate, accessLog = [], json }: ErasureOptions,
  config: Call['config'],
): Promise<void> {
  if ((list === undefined) === (certificate === undefined))
    throw usage('give --list, --certificate ACTION, or one of the commands plan and apply');
  if (list === true && accessLog.length > 0) throw usage('--access-log: only with --certificate');
  const { dataDir } = config();
  assertReadable(dataDir);
  if (certificate !== undefined) {
    const closedFiles = closedFilesFrom(accessLog, dataDir);
    await printCertificate(dataDir, idFrom('--certificate', certificate), json === true, closedFiles);
    return;
  }
  const lines = linesOf(openStore(dataDir).events.actions?.(), (hold) => isKeyEndedBy(dataDir, hold));
  process.stdout.write(json ? lines.map(jsonLine).join('') : tableOf(lines));
  if (lines.length === 0) process.stderr.write('collector: the log has no actions\n');
}

/**
 * @returns the number of events with encrypted bytes in the data directory.
 * @throws CommandFailure if the erasure is pending, or the log has no such action.
 */
export async function printCertificate(
  dataDir: string,
  action: string,
  isJson: boolean,
  closedFiles?: ClosedFiles,
): Promise<number> {
  const made = await certificateOf(dataDir, action, { withIds: isJson, closedFiles });
  process.stdout.write(isJson ? jsonText(made) : certificateText(made, process.stdout));
  if (made.keys_destroyed === null)
    throw new CommandFailure(`action ${action} is pending and is retried automatically`, EXIT.pending);
  return made.bytes_left;
}

/** Whether the release of a hold has reached every key directory. */
function isKeyEndedBy(dataDir: string, hold: string): boolean {
  return !notesKeys(dataDir) || isHoldKeyEverywhere(readKeyPlaces(dataDir), hold);
}

/** The output for programs, which rely on the names. */
function linesOf(actions: Actions | undefined, isKeyEnded: (hold: string) => boolean) {
  const lines = [];
  const listed = new Set<string>();
  for (const { said, sequence, entryId, at } of actions?.logged ?? []) {
    // The first of several parts represents all.
    if (said.does === 'done' || (said.does === 'erase' && listed.has(said.action))) continue;
    listed.add(said.action);
    const erase = said.does === 'erase' ? said : undefined;
    const isDone =
      said.does === 'release'
        ? isKeyEnded(said.hold)
        : erase === undefined || actions?.doneAt(said.action) !== undefined;
    const parts = actions?.partsIn(said.action) ?? [];
    lines.push({
      ...{ action: said.action, does: said.does, reason: erase?.reason ?? null, rule: erase?.rule ?? null },
      events: erase === undefined ? null : eventsOf(parts.flatMap(({ keys }) => keys)).size,
      ...{ sequence, entry_id: entryId, at: new Date(at).toISOString() },
      state: isDone ? 'done' : 'pending',
    });
  }
  return lines;
}

function tableOf(lines: ReturnType<typeof linesOf>): string {
  if (lines.length === 0) return '';
  const rows = lines.map(({ action, does, reason, rule, events, sequence, at, state }) => [
    ...[action, does, rule === null ? (reason ?? '-') : `${reason} (${rule})`, `${events ?? '-'}`],
    ...[`${sequence}`, at.slice(0, 16).replace('T', ' '), state],
  ]);
  return alignedTable([['ACTION', 'DOES', 'REASON', 'EVENTS', 'ENTRY', 'AT (UTC)', 'STATE'], ...rows]);
}
