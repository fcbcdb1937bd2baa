/** What is told of an import at its end: counts and file names, and nothing of what the lines hold. */
import type { Importer, InputTally } from '../importing/importer.js';
import type { RejectFile } from '../importing/reject-file.js';

export interface Result {
  readonly importer: Importer;
  readonly rejects: RejectFile | undefined;
  readonly dryRun: boolean;
  /** The signal that ended it before all was read. */
  readonly stoppedBy: NodeJS.Signals | undefined;
}

type Count = 'lines' | 'empty' | 'stored' | 'repeats' | 'fixed' | 'refused';

/** Of all inputs together. */
export function sum(tallies: readonly InputTally[], count: Count): number {
  return tallies.reduce((total, tally) => total + tally[count], 0);
}

/** 1,234: such numbers are long, and nobody counts digits. */
function spelt(number: number): string {
  return number.toLocaleString('en-US');
}

function counted(number: number, thing: string): string {
  return `${spelt(number)} ${thing}${number === 1 ? '' : 's'}`;
}

/** A few lines for a person. */
export function asText({ importer, rejects, dryRun }: Result): string {
  const { tallies, refused: codes } = importer;
  const total = (count: Count) => sum(tallies, count);
  const refused = total('refused');
  const byCode = [...codes].map(([code, count]) => `${spelt(count)} ${code}`).join(', ');
  const read = `${counted(total('lines'), 'line')} of ${counted(tallies.length, 'file')} read`;
  const kept = dryRun
    ? `${counted(total('stored'), 'event')} could be stored`
    : `${counted(total('stored'), 'event')} stored, ${spelt(total('repeats'))} stored before`;
  const lines = [`${read}: ${kept}, ${refused === 0 ? 'none' : spelt(refused)} refused.`];
  if (total('fixed') > 0) lines.push(`Timestamps fixed in ${counted(total('fixed'), 'event')}.`);
  if (dryRun) lines.push('Nothing was stored; whether the log has them already was not looked at.');
  if (refused > 0) {
    const where =
      rejects === undefined
        ? 'name a file by --rejects to see which lines.'
        : `see ${rejects.path}. It holds patient data: delete it when it is dealt with.`;
    lines.push(`Refused: ${byCode}; ${where}`);
  }
  return lines.map((line) => `${line}\n`).join('');
}

/** For scripts; the names are a promise. */
export function asJson({ importer, rejects, dryRun, stoppedBy }: Result): string {
  const { tallies } = importer;
  const told = {
    dry_run: dryRun,
    complete: stoppedBy === undefined,
    lines: sum(tallies, 'lines'),
    empty: sum(tallies, 'empty'),
    [keptAs(dryRun)]: sum(tallies, 'stored'),
    repeats: sum(tallies, 'repeats'),
    fixed: sum(tallies, 'fixed'),
    refused: sum(tallies, 'refused'),
    refused_by_code: Object.fromEntries(importer.refused),
    rejects: rejects !== undefined && rejects.lines > 0 ? rejects.path : null,
    files: tallies.map((tally) => fileOf(tally, dryRun)),
  };
  return `${JSON.stringify(told, undefined, 2)}\n`;
}

function keptAs(dryRun: boolean): string {
  return dryRun ? 'passed' : 'stored';
}

function fileOf({ name, lines, stored, repeats, refused, whole }: InputTally, dryRun: boolean) {
  const digest = { bytes: whole?.bytes ?? null, sha256: whole?.sha256 ?? null };
  return { file: name, lines, [keptAs(dryRun)]: stored, repeats, refused, ...digest };
}

/** How far an import came that ended before its inputs did. */
export function howFar({ tallies }: Importer, dryRun: boolean): string {
  const last = tallies.findLast(({ lines }) => lines > 0);
  if (last === undefined) return 'no line was read';
  if (dryRun) return `examined up to line ${last.lines} of ${last.name}`;
  return (
    `all up to line ${last.lines} of ${last.name} is done (${counted(sum(tallies, 'stored'), 'event')} stored); ` +
    'run it again to go on, nothing is stored twice'
  );
}
