/** The input files of `collector import`: their lines, the outcome of each, and the rejects. */
import fs from 'node:fs';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { isBlank, LineInput, STANDARD_INPUT, type Line } from '../importing/lines.js';
import { readLine, type LineFault, type LineRules, type Offered } from '../importing/offered-line.js';
import { RejectFile, type Refusal } from '../importing/reject-file.js';
import { fixTimestamps, Zone } from '../importing/timestamp-fix.js';
import { organisationFrom, wordFrom } from './arguments.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { counted } from '../quantity.js';
import { ProgressBar } from './terminal.js';
import { Unusable } from '../unusable.js';

export interface LineOptions {
  readonly kind?: string;
  /** The only organisation that a line may name; any if undefined. */
  readonly organisation?: string;
  /** Path of the reject file; undefined for none. */
  readonly rejects?: string;
  readonly fix?: string;
  readonly json?: true;
}

/** Counts of the lines of one file so far. */
interface FileTally {
  readonly file: string;
  lines: number;
  /** Blank lines. */
  empty: number;
  passed: number;
  fixed: number;
  refused: number;
  /** Size and hash of the whole file; null until it was read to its end. */
  bytes: number | null;
  sha256: string | null;
}

/** The event of a line, or why there is none. */
export interface ReadLine extends Line {
  readonly tally: FileTally;
  readonly offered: Offered | LineFault;
  /** Whether timestamps of the event were fixed. */
  readonly fixed: boolean;
}

/** Size from which a progress bar is shown. */
const BAR_FROM_MEBIBYTES = 32;
const UNREADABLE = /\.(gz|zst|br)$/i;

export class LineFiles {
  readonly tallies: readonly FileTally[];
  /** Refused lines by code. */
  readonly refused = new Map<string, number>();
  readonly rejects: RejectFile | undefined;
  readonly #rules: LineRules;
  readonly #zone: Zone | undefined;
  readonly #bar: ProgressBar;
  /** Undefined if unknown. */
  readonly #totalBytes: number | undefined;

  /**
   * Creates the reject file; the caller must call `close`.
   * @throws CommandFailure if a file does not exist or is a directory, or an option is invalid.
   */
  constructor(files: readonly string[], { kind, organisation, rejects, fix, json }: LineOptions) {
    this.#rules = {
      kind: kind === undefined ? undefined : wordFrom('--kind', kind, EVENT_KINDS),
      organisation: organisation === undefined ? undefined : organisationFrom(organisation),
    };
    this.#zone = fix === undefined ? undefined : zoneFrom(fix);
    this.#totalBytes = bytesOf(files);
    this.tallies = files.map((file) => ({
      ...{ file, lines: 0, empty: 0, passed: 0, fixed: 0, refused: 0, bytes: null, sha256: null },
    }));
    this.#bar = new ProgressBar({
      ...{ wanted: json !== true && process.stderr.isTTY, unit: 'MiB', per: 1 << 20 },
      ...{ from: BAR_FROM_MEBIBYTES, rate: true },
    });
    this.rejects = rejects === undefined ? undefined : openRejects(rejects);
  }

  /**
   * The lines of all files that are not blank, in batches as they arrive; ends early when `stop` is aborted.
   */
  async *read(stop?: AbortSignal): AsyncGenerator<ReadLine[], void> {
    let before = 0;
    for (const tally of this.tallies) {
      const input = new LineInput(tally.file);
      for await (const lines of input.lines(stop)) {
        yield lines.flatMap((line) => this.#read(line, tally) ?? []);
        if (this.#totalBytes !== undefined) this.#bar.show(before + input.bytes, this.#totalBytes);
      }
      if (stop?.aborted === true) return;
      before += input.bytes;
      Object.assign(tally, { bytes: input.bytes, sha256: input.sha256 });
    }
  }

  passed({ tally, fixed }: ReadLine): void {
    tally.passed++;
    if (fixed) tally.fixed++;
  }

  /** Counts a refused line and writes it to the reject file, if there is one. */
  refuse(
    { tally, number, bytes }: ReadLine,
    fault: LineFault,
    outcome: Refusal['outcome'] = 'rejected',
  ): void {
    tally.refused++;
    this.refused.set(fault.code, (this.refused.get(fault.code) ?? 0) + 1);
    this.rejects?.write(tally.file, { ...fault, outcome, line: number, bytes });
  }

  sum(count: 'lines' | 'empty' | 'passed' | 'fixed' | 'refused'): number {
    return this.tallies.reduce((total, tally) => total + tally[count], 0);
  }

  /** A summary for people. @param passed a word for accepted events, such as "stored". */
  asText(passed: string): string {
    const [lines, events, fixed, refused] = (['lines', 'passed', 'fixed', 'refused'] as const).map((count) =>
      this.sum(count),
    ) as [number, number, number, number];
    const read = `${counted(lines, 'line')} of ${counted(this.tallies.length, 'file')} read`;
    const text = [`${read}: ${counted(events, 'event')} ${passed}, ${refused || 'none'} refused.`];
    if (fixed > 0) text.push(`Timestamps fixed in ${counted(fixed, 'event')}.`);
    if (refused > 0) {
      const byCode = [...this.refused].map(([code, count]) => `${count} ${code}`).join(', ');
      const { rejects } = this;
      const where =
        rejects && `; see ${rejects.path}. It contains patient data: delete it when it is no longer needed`;
      text.push(`Refused: ${byCode}${where ?? ''}.`);
    }
    return text.map((line) => `${line}\n`).join('');
  }

  /** The summary for programs, which rely on the names. @param passed the member for accepted events. */
  asJson(passed: 'stored' | 'passed', more: object): string {
    const told = {
      ...{ ...more, lines: this.sum('lines'), empty: this.sum('empty'), [passed]: this.sum('passed') },
      ...{ fixed: this.sum('fixed'), refused: this.sum('refused') },
      refused_by_code: Object.fromEntries(this.refused),
      rejects: this.rejects !== undefined && this.rejects.lines > 0 ? this.rejects.path : null,
      files: this.tallies.map(({ file, lines, passed: count, refused, bytes, sha256 }) => ({
        ...{ file, lines, [passed]: count, refused, bytes, sha256 },
      })),
    };
    return `${JSON.stringify(told, undefined, 2)}\n`;
  }

  /** Flushes the rejects to stable storage, or removes the file if it is empty. */
  close(): void {
    this.#bar.clear();
    this.rejects?.close();
  }

  #read(line: Line, tally: FileTally): ReadLine | undefined {
    const { bytes, number, length, offset } = line;
    tally.lines = number;
    if (bytes === undefined) {
      // The line was not kept in memory; the reject file has its offset instead.
      const offered = { code: 'body_too_large', details: { bytes: length, offset } };
      return { ...line, tally, offered, fixed: false };
    }
    if (isBlank(bytes)) {
      tally.empty++;
      return undefined;
    }
    const offered = readLine(bytes, this.#rules);
    if (this.#zone === undefined || 'code' in offered) return { ...line, tally, offered, fixed: false };
    const fixed = fixTimestamps(offered.body.toString(), offered.kind, this.#zone);
    if (fixed === undefined) return { ...line, tally, offered, fixed: false };
    return { ...line, tally, offered: { ...offered, body: Buffer.from(fixed) }, fixed: true };
  }
}

function zoneFrom(text: string): Zone {
  const zone = /^timestamps=(.+)$/.exec(text)?.[1];
  if (zone === undefined) throw usage(`--fix: ${JSON.stringify(text)} is not timestamps=ZONE`);
  try {
    return new Zone(zone);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw usage(
      `--fix: ${JSON.stringify(zone)} is neither an offset such as +01:00 nor a zone such as Europe/Berlin`,
    );
  }
}

/**
 * The total size; undefined if it cannot be known.
 * @throws CommandFailure if a file does not exist or is a directory.
 */
function bytesOf(files: readonly string[]): number | undefined {
  if (files.filter((file) => file === STANDARD_INPUT).length > 1) {
    throw usage('- is standard input, which can be read only once');
  }
  let bytes: number | undefined = 0;
  for (const file of files) {
    const found = file === STANDARD_INPUT ? undefined : checkedFile(file);
    bytes = bytes !== undefined && found?.isFile() === true ? bytes + found.size : undefined;
  }
  return bytes;
}

function checkedFile(file: string): fs.Stats {
  const found = fs.statSync(file, { throwIfNoEntry: false });
  if (found === undefined) throw new CommandFailure(`there is no file ${file}`, EXIT.notFound);
  if (found.isDirectory()) throw usage(`${file} is a directory`);
  if (UNREADABLE.test(file)) throw usage(`${file} is compressed: decompress it and pipe it to -`);
  fs.accessSync(file, fs.constants.R_OK);
  return found;
}

function openRejects(file: string): RejectFile {
  try {
    return RejectFile.open(file);
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    throw usage(`${error.message}. Move it away first`);
  }
}
