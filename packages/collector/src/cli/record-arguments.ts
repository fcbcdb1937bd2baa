/** What an operator types to `collector records`, read strictly before anything is done. */
import fs from 'node:fs';
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import type { RecordSelection } from '../catalogue/catalogue.js';
import type { Clock } from '../records/report/run-moments.js';
import { clockFrom, instantFrom, organisationFrom, runIdFrom } from './event-arguments.js';
import { usage } from './key-arguments.js';
import { FORMATS, type ExportFormat } from './record-formats.js';

export interface RecordsOptions {
  readonly run?: string;
  readonly organisation?: string;
  readonly model?: string;
  readonly since?: string;
  readonly until?: string;
  readonly clock?: string;
  readonly after?: string;
  readonly incomplete?: true;
  readonly full?: true;
  readonly format?: string;
  readonly bom?: true;
  readonly out?: string;
  readonly partition?: string;
  readonly tempDir?: string;
  readonly json?: true;
}

export interface RecordsRequest {
  /** Its record id may be the beginning of one. */
  readonly selection: RecordSelection;
  /** Undefined for the readable text. */
  readonly format: (ExportFormat & { readonly name: string }) | undefined;
  /** A file, or with `dayBy` a directory; undefined for standard output. */
  readonly out: string | undefined;
  /** The clock by whose days the records are told apart; undefined when they all go to one file. */
  readonly dayBy: Clock | undefined;
  readonly tempDir: string | undefined;
}

const TEXT = 'text';
const BOM_IS_FOR = '--bom: only --format csv can have a byte order mark';

/** @param onTerminal whether standard output is one. */
export function requestFrom(options: RecordsOptions, onTerminal: boolean): RecordsRequest {
  const { run, organisation, model, since, until, after, partition, incomplete } = options;
  const clock = clockFrom(options.clock) ?? 'received';
  const selection: RecordSelection = {
    ...{ model, isIncomplete: incomplete, clock },
    // One day after the other, so that one file is open at a time.
    order: partition !== undefined && clock === 'sender' ? 'sender' : 'log',
    ...(run !== undefined && { recordId: runIdFrom('--run', run).id }),
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(after !== undefined && { after: sequenceFrom(after) }),
    ...periodFrom(options),
  };
  if (model === '') throw usage('--model: "" is no model');
  const out = options.out === undefined ? undefined : path.resolve(options.out);
  if (partition !== undefined && partition !== 'day')
    throw usage(`--partition: ${JSON.stringify(partition)} is not day`);
  if (partition !== undefined && out === undefined) throw usage('--partition: --out has to name a directory');
  if (options.clock !== undefined && (since ?? until ?? partition) === undefined)
    throw usage(
      '--clock: says by which clock --since, --until and --partition are meant, and none of them is there',
    );
  return {
    selection,
    format: formatFrom(options, onTerminal),
    out: out === undefined ? undefined : newPlace(out),
    dayBy: partition === undefined ? undefined : clock,
    tempDir: options.tempDir === undefined ? undefined : directoryFrom(options.tempDir),
  };
}

function periodFrom({ since, until }: RecordsOptions): { since?: number; until?: number } {
  const period = {
    ...(since !== undefined && { since: instantFrom('--since', since) }),
    ...(until !== undefined && { until: instantFrom('--until', until) }),
  };
  if (period.since !== undefined && period.until !== undefined && period.since > period.until) {
    throw usage(`--since: ${since} is later than --until ${until}`);
  }
  return period;
}

function formatFrom(
  { format, full, run, bom, out, partition }: RecordsOptions,
  onTerminal: boolean,
): RecordsRequest['format'] {
  const isText = full ?? (run !== undefined && onTerminal && out === undefined);
  const name = format ?? (isText ? TEXT : 'ndjson');
  if (full && name !== TEXT) throw usage('--full: only --format text can be cut short, and is without it');
  if (name === TEXT) {
    if (run === undefined)
      throw usage(`${full ? '--full' : '--format: text'} is for one run, which --run names`);
    if (out !== undefined || partition !== undefined)
      throw usage('--format: text goes to standard output only');
    if (bom) throw usage(BOM_IS_FOR);
    return undefined;
  }
  const found = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  if (found === undefined) {
    const names = [TEXT, ...Object.keys(FORMATS)];
    throw usage(`--format: ${JSON.stringify(name)} is none of ${names.join(', ')}${didYouMean(name, names)}`);
  }
  if (found.binary && out === undefined && onTerminal) {
    throw usage(`--format: ${name} cannot be shown on a terminal: name a file by --out`);
  }
  if (bom && found.loadWithBom === undefined) throw usage(BOM_IS_FOR);
  return { ...found, name, load: (bom && found.loadWithBom) ?? found.load };
}

function sequenceFrom(text: string): number {
  const sequence = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(sequence)) throw usage(`--after: ${JSON.stringify(text)} is not a sequence`);
  return sequence;
}

/** What is there is never written over. */
function newPlace(out: string): string {
  if (path.basename(out) === '-')
    throw usage('--out: - is no file; without --out it goes to standard output');
  if (fs.statSync(out, { throwIfNoEntry: false }) !== undefined) {
    throw usage(`--out: ${out} is there already, and is not written over`);
  }
  if (fs.statSync(path.dirname(out), { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw usage(`--out: there is no directory ${path.dirname(out)}`);
  }
  return out;
}

function directoryFrom(directory: string): string {
  if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw usage(`--temp-dir: there is no directory ${directory}`);
  }
  return path.resolve(directory);
}
