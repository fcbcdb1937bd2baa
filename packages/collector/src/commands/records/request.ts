/** The options of `collector records`, parsed and checked before anything is read. */
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import { modelsNamed, type RunFilter } from '../../catalogue/catalogue.js';
import { type AskedFormat, FORMATS } from '../../records/exports/formats.js';
import type { Clock } from '../../records/vocabulary.js';
import { clockFrom, idsIn, newPlaceFrom, organisationFrom, periodFrom, runIdFrom } from '../arguments.js';
import { statesFrom } from '../run-filter.js';
import { usage } from '../exit-codes.js';
import type { AccessRequest } from './access-request.js';
import { ContentDirectory } from './content.js';

export interface RecordsOptions {
  readonly run?: string;
  readonly subjectFile?: string;
  readonly withOthers?: true;
  readonly organisation?: string;
  readonly model?: string;
  readonly since?: string;
  readonly until?: string;
  readonly clock?: string;
  readonly after?: string;
  readonly only?: string;
  readonly full?: true;
  readonly content?: string;
  readonly format?: string;
  readonly forSpreadsheet?: boolean;
  readonly out?: string;
  readonly json?: true;
}

export interface RecordsRequest {
  /** The filter, which may hold a short record id. */
  readonly selection: RunFilter;
  /** Undefined for readable text. */
  readonly format: AskedFormat | undefined;
  /** A file, or with `dayBy` a directory; undefined for standard output. */
  readonly out: string | undefined;
  /** The clock that selects the day of a record; undefined if all records go to one file. */
  readonly dayBy: Clock | undefined;
  /** The directory with the content that URIs reference; if undefined, none is read. */
  readonly content: ContentDirectory | undefined;
}

const TEXT = 'text';

/** @param onTerminal whether standard output is a terminal. */
export function requestFrom(options: RecordsOptions, onTerminal: boolean): RecordsRequest {
  const { run, organisation, model, since, until, after } = options;
  const isByDay = options.out?.endsWith(path.sep) === true;
  const clock = clockFrom(options.clock) ?? 'received';
  const period = periodFrom(options, true);
  const selection: RunFilter = {
    ...{ clock, until: period.until },
    // The collector's clock selects records with an event in the period; the sender's clock selects records
    // that began in it.
    ...(clock === 'sender' ? { since: period.since } : { eventsSince: period.since }),
    // Ordered by day, so that one file is open at a time.
    order: isByDay && clock === 'sender' ? 'sender' : 'log',
    ...(run !== undefined && { recordId: runIdFrom('--run', run).id }),
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(after !== undefined && { afterSequence: sequenceFrom(after) }),
    ...(model !== undefined && { models: modelsNamed(model) }),
    ...statesFrom(options.only),
  };
  if (model === '') throw usage('--model: the name is empty');
  const out = options.out === undefined ? undefined : newPlaceFrom(options.out);
  if (options.clock !== undefined && (since ?? until) === undefined && !isByDay)
    throw usage('--clock: requires --since, --until or --out DIRECTORY/');
  return {
    selection,
    format: formatFrom(options, onTerminal),
    out,
    dayBy: isByDay ? clock : undefined,
    content: contentFrom(options),
  };
}

/** A person's request for access. */
export function accessRequestFrom(options: RecordsOptions, onTerminal: boolean): AccessRequest | undefined {
  const { subjectFile, organisation, withOthers, full, out, json } = options;
  if (withOthers && subjectFile === undefined) throw usage('--with-others: requires --subject-file');
  if (subjectFile === undefined) return undefined;
  const { run, model, since, until, clock, after, only } = options;
  if ([run, model, since, until, clock, after, only].some((each) => each !== undefined))
    throw usage(
      '--subject-file: only --organisation, --with-others, --format, --full, --content, --out and --json ' +
        'go with it',
    );
  if (out?.endsWith(path.sep) === true) throw usage('--out: --subject-file writes a single file');
  return {
    organisation: organisation === undefined ? undefined : organisationFrom(organisation),
    ...{ withOthers: withOthers === true, isFull: full === true, json: json === true },
    content: contentFrom(options),
    format: formatFrom(options, onTerminal),
    out: out === undefined ? undefined : newPlaceFrom(out),
    subjects: idsIn('--subject-file', subjectFile),
  };
}

function contentFrom({ content, full }: RecordsOptions): ContentDirectory | undefined {
  if (content === undefined) return undefined;
  if (full !== true) throw usage('--content: requires --full');
  return new ContentDirectory(path.resolve(content));
}

function formatFrom(
  { format, full, run, subjectFile, out, forSpreadsheet = false }: RecordsOptions,
  onTerminal: boolean,
): RecordsRequest['format'] {
  const asked = run ?? subjectFile;
  const isText = full ?? (asked !== undefined && onTerminal && out === undefined);
  const name = format ?? (isText ? TEXT : 'ndjson');
  if (full && name !== TEXT) throw usage('--full: only --format text shortens texts');
  const found = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  if (forSpreadsheet && found?.forSpreadsheets !== true)
    throw usage('--for-spreadsheet: requires --format csv or csv-calls');
  if (name === TEXT) {
    if (asked === undefined)
      throw usage(`${full ? '--full' : '--format: text'} requires --run or --subject-file`);
    if (out !== undefined) throw usage('--format: text is written to standard output only');
    return undefined;
  }
  if (found === undefined) {
    const names = [TEXT, ...Object.keys(FORMATS)];
    throw usage(
      `--format: ${JSON.stringify(name)} is not one of ${names.join(', ')}${didYouMean(name, names)}`,
    );
  }
  if (found.binary && out === undefined && onTerminal) {
    throw usage(`--format: ${name} cannot be shown on a terminal: give --out FILE`);
  }
  return { ...found, name, options: { forSpreadsheet } };
}

function sequenceFrom(text: string): number {
  const sequence = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(sequence)) throw usage(`--after: ${JSON.stringify(text)} is not a sequence number`);
  return sequence;
}
