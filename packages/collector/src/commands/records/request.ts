/** What an operator types to `collector records`, read strictly before anything is done. */
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import { modelsNamed, type RunFilter } from '../../catalogue/catalogue.js';
import { type AskedFormat, type Bundling, BUNDLINGS, FORMATS } from '../../records/exports/formats.js';
import type { Clock } from '../../records/vocabulary.js';
import { clockFrom, idsIn, newPlaceFrom, organisationFrom, periodFrom, runIdFrom } from '../arguments.js';
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
  readonly incomplete?: true;
  readonly full?: true;
  readonly content?: string;
  readonly format?: string;
  readonly bundle?: string;
  readonly forSpreadsheet?: boolean;
  readonly out?: string;
  readonly partition?: string;
  readonly json?: true;
}

export interface RecordsRequest {
  /** Its record id may be the beginning of one. */
  readonly selection: RunFilter;
  /** Undefined for the readable text. */
  readonly format: AskedFormat | undefined;
  /** A file, or with `dayBy` a directory; undefined for standard output. */
  readonly out: string | undefined;
  /** The clock by whose days records go to files; undefined when they all go to one. */
  readonly dayBy: Clock | undefined;
  /** Where the content is shown from that events name by a URI; undefined for nowhere. */
  readonly content: ContentDirectory | undefined;
}

const TEXT = 'text';

/** @param onTerminal whether standard output is one. */
export function requestFrom(options: RecordsOptions, onTerminal: boolean): RecordsRequest {
  const { run, organisation, model, since, until, after, partition, incomplete } = options;
  const clock = clockFrom(options.clock) ?? 'received';
  const period = periodFrom(options, true);
  const selection: RunFilter = {
    ...{ clock, until: period.until },
    // By the collector's clock a record is of a period that has an event of it; by the sender's, one in which it began.
    ...(clock === 'sender' ? { since: period.since } : { eventsSince: period.since }),
    // One day after the other, so that one file is open at a time.
    order: partition !== undefined && clock === 'sender' ? 'sender' : 'log',
    ...(run !== undefined && { recordId: runIdFrom('--run', run).id }),
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(after !== undefined && { afterSequence: sequenceFrom(after) }),
    ...(model !== undefined && { models: modelsNamed(model) }),
    ...(incomplete === true && { level: 'incomplete' }),
  };
  if (model === '') throw usage('--model: "" is no model');
  const out = options.out === undefined ? undefined : newPlaceFrom(options.out);
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
    out,
    dayBy: partition === undefined ? undefined : clock,
    content: contentFrom(options),
  };
}

/** A request for access by a person. */
export function accessRequestFrom(options: RecordsOptions, onTerminal: boolean): AccessRequest | undefined {
  const { subjectFile, organisation, withOthers, full, out, json } = options;
  if (withOthers && subjectFile === undefined) throw usage('--with-others: goes with --subject-file');
  if (subjectFile === undefined) return undefined;
  const { run, model, since, until, clock, after, incomplete, partition } = options;
  if ([run, model, since, until, clock, after, incomplete, partition].some((each) => each !== undefined))
    throw usage(
      '--subject-file: goes with --organisation, --with-others, --format, --full, --content, --out and --json',
    );
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
  if (full !== true) throw usage('--content: goes with --full');
  return new ContentDirectory(path.resolve(content));
}

function formatFrom(
  { format, full, run, subjectFile, out, partition, bundle, forSpreadsheet = false }: RecordsOptions,
  onTerminal: boolean,
): RecordsRequest['format'] {
  const asked = run ?? subjectFile;
  const isText = full ?? (asked !== undefined && onTerminal && out === undefined);
  const name = format ?? (isText ? TEXT : 'ndjson');
  if (full && name !== TEXT) throw usage('--full: only --format text can be cut short, and is without it');
  const bundling = bundlingFrom(bundle, name);
  const found = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  if (forSpreadsheet && found?.forSpreadsheets !== true)
    throw usage('--for-spreadsheet: goes with --format csv or csv-calls');
  if (name === TEXT) {
    if (asked === undefined)
      throw usage(
        `${full ? '--full' : '--format: text'} is for one run, which --run names, or for --subject-file`,
      );
    if (out !== undefined || partition !== undefined)
      throw usage('--format: text goes to standard output only');
    return undefined;
  }
  if (found === undefined) {
    const names = [TEXT, ...Object.keys(FORMATS)];
    throw usage(`--format: ${JSON.stringify(name)} is none of ${names.join(', ')}${didYouMean(name, names)}`);
  }
  if (found.binary && out === undefined && onTerminal) {
    throw usage(`--format: ${name} cannot be shown on a terminal: name a file by --out`);
  }
  return { ...found, name, options: { bundle: bundling, forSpreadsheet } };
}

function bundlingFrom(bundle: string | undefined, format: string): Bundling {
  if (bundle === undefined) return 'collection';
  const bundling = BUNDLINGS.find((each) => each === bundle);
  if (bundling === undefined)
    throw usage(`--bundle: ${JSON.stringify(bundle)} is none of ${BUNDLINGS.join(', ')}`);
  if (format !== 'fhir') throw usage('--bundle: goes with --format fhir');
  return bundling;
}

function sequenceFrom(text: string): number {
  const sequence = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(sequence)) throw usage(`--after: ${JSON.stringify(text)} is not a sequence`);
  return sequence;
}
