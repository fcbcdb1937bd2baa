/** What an operator types to `collector report`, read strictly before anything is done. */
import fs from 'node:fs';
import path from 'node:path';
import { DAY_MS } from '../records/report/period-steps.js';
import type { Clock } from '../records/report/run-moments.js';
import type { ReportPeriod } from '../records/report/run-report.js';
import { clockFrom, instantFrom, organisationFrom } from './event-arguments.js';
import { usage } from './key-arguments.js';

export interface ReportOptions {
  readonly out: string;
  readonly organisation?: string;
  readonly model?: string;
  readonly since?: string;
  readonly until?: string;
  readonly clock?: string;
  readonly tempDir?: string;
  readonly json?: true;
}

export interface ReportRequest {
  readonly out: string;
  readonly organisation: string | undefined;
  /** MODEL_ID or MODEL_ID@VERSION. */
  readonly model: string | undefined;
  readonly since: number | undefined;
  readonly until: number | undefined;
  readonly clock: Clock;
  readonly tempDir: string | undefined;
}

/** The times of receipt of the first and the last event of a log. */
export interface LogEnds {
  readonly events: number;
  readonly first: number;
  readonly last: number;
}

/** Without --since. */
export const DEFAULT_DAYS = 90;
/** On an axis of more, nothing of the time that was meant could be seen. */
const MOST_YEARS = 100;

/** @param now stands in for the end of the log, which has not been looked at. */
export function reportRequestFrom(options: ReportOptions, now: number): ReportRequest {
  const { organisation, model, since, until, clock } = options;
  const request: ReportRequest = {
    organisation: organisation === undefined ? undefined : organisationFrom(organisation),
    model,
    since: since === undefined ? undefined : instantFrom('--since', since),
    until: until === undefined ? undefined : instantFrom('--until', until),
    clock: clockFrom(clock) ?? 'received',
    out: newFile(options.out),
    tempDir: options.tempDir === undefined ? undefined : path.resolve(options.tempDir),
  };
  if (request.since !== undefined && request.until !== undefined && request.since >= request.until) {
    throw usage(`--since: ${since} is not earlier than --until ${until}`);
  }
  if (request.since !== undefined && (request.until ?? now) - request.since > MOST_YEARS * 366 * DAY_MS) {
    throw usage(`--since: ${since} is more than ${MOST_YEARS} years before the end of the period`);
  }
  if (model === '') throw usage('--model: "" is no model');
  if (request.tempDir !== undefined && !isDirectory(request.tempDir))
    throw usage(`--temp-dir: there is no directory ${options.tempDir}`);
  return request;
}

/**
 * The period that is asked for: without an end up to the end of the log, without a beginning the 90 days of UTC before
 * its end. Of these it begins with the first event: by the collector's clock with that of the log, by the senders'
 * with the first that lies in them, which shows once they are read.
 * @param now stands in for the end of a log without events.
 */
export function periodFrom({ since, until, clock }: ReportRequest, log: LogEnds, now: number): ReportPeriod {
  const asOf = log.events === 0 ? now : log.last;
  const end = until ?? Math.max(asOf, since ?? 0) + 1;
  if (since !== undefined) return { since, fromFirstEvent: false, until: end, clock, asOf };
  const days = dayOf(end - 1) - (DEFAULT_DAYS - 1) * DAY_MS;
  const began = clock === 'received' && log.events > 0 ? Math.min(dayOf(log.first), dayOf(end - 1)) : days;
  return { since: Math.max(days, began), fromFirstEvent: clock === 'sender', until: end, clock, asOf };
}

function dayOf(time: number): number {
  return Math.floor(time / DAY_MS) * DAY_MS;
}

/** What is there is never written over. */
function newFile(text: string): string {
  const out = path.resolve(text);
  if (fs.statSync(out, { throwIfNoEntry: false }) !== undefined) {
    throw usage(`--out: ${out} is there already, and is not written over`);
  }
  if (!isDirectory(path.dirname(out))) throw usage(`--out: there is no directory ${path.dirname(out)}`);
  return out;
}

function isDirectory(directory: string): boolean {
  return fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() === true;
}
