/** What an operator types to `collector records`, read strictly before anything is done. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import {
  modelVersionOf,
  NAMES,
  stringOf,
  textOf,
  type ColumnSource,
} from '../records/exports/record-columns.js';
import type { RunSelection } from '../records/run-groups.js';
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

/** For records that are picked by when they began. Times in milliseconds since 1970; `until` is not part of it. */
interface BeganWithin {
  readonly since: number;
  readonly until: number;
}

export interface RecordFilter {
  /** By the sender's clock; undefined where that does not matter. */
  readonly began?: BeganWithin;
  readonly incomplete: boolean;
  /** MODEL_ID or MODEL_ID@VERSION. */
  readonly model: string | undefined;
}

export interface RecordsRequest {
  /** Its record id may be the beginning of one. */
  readonly selection: RunSelection;
  /** What only shows once a record is made. */
  readonly filter: RecordFilter;
  /** Undefined for the readable text. */
  readonly format: (ExportFormat & { readonly name: string }) | undefined;
  /** A file, or with `byDay` a directory; undefined for standard output. */
  readonly out: string | undefined;
  readonly byDay: boolean;
  /** By which records are picked, and go to a day. */
  readonly clock: Clock;
  readonly tempDir: string;
}

const TEXT = 'text';
const BOM_IS_FOR = '--bom: only --format csv can have a byte order mark';

/** @param onTerminal whether standard output is one. */
export function requestFrom(options: RecordsOptions, onTerminal: boolean): RecordsRequest {
  const { run, organisation, model, after, incomplete = false } = options;
  const clock = clockFrom(options.clock) ?? 'received';
  const period = periodFrom(options);
  const selection: RunSelection = {
    ...(run !== undefined && { recordId: runIdFrom('--run', run).id }),
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(after !== undefined && { after: sequenceFrom(after) }),
    ...(clock === 'received' && period),
  };
  if (model === '') throw usage('--model: "" is no model');
  const out = options.out === undefined ? undefined : path.resolve(options.out);
  const { partition } = options;
  if (partition !== undefined && partition !== 'day')
    throw usage(`--partition: ${JSON.stringify(partition)} is not day`);
  if (partition !== undefined && out === undefined) throw usage('--partition: --out has to name a directory');
  return {
    selection,
    filter: { incomplete, model, ...(clock === 'sender' && { began: beganWithin(period) }) },
    format: formatFrom(options, onTerminal),
    out: out === undefined ? undefined : newPlace(out),
    byDay: partition === 'day',
    clock,
    tempDir: directoryFrom(options.tempDir ?? os.tmpdir()),
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

function beganWithin({
  since = -Infinity,
  until = Infinity,
}: {
  since?: number;
  until?: number;
}): BeganWithin {
  return { since, until };
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

/** @param began when the record began by the sender's clock; asked for only where it matters. */
export function isWanted(filter: RecordFilter, record: ColumnSource, began: () => number): boolean {
  const { incomplete, model, began: period } = filter;
  if (incomplete && record.metadata.completeness.level !== 'incomplete') return false;
  if (model !== undefined && !isOfModel(record, model)) return false;
  if (period === undefined) return true;
  const at = began();
  return at >= period.since && at < period.until;
}

/** An id may have an @ in it as well. */
function isOfModel(record: ColumnSource, wanted: string): boolean {
  const id = stringOf(textOf(record.model, NAMES.model_id));
  if (id === undefined) return false;
  return wanted === id || wanted === `${id}@${stringOf(modelVersionOf(record)) ?? ''}`;
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
