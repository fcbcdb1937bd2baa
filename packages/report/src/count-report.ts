/** Counts the runs of a period for `collector report` and for the report of the viewer. */
import { setImmediate as breath } from 'node:timers/promises';
import type { Catalogue } from '@clinical-events/collector/catalogue/catalogue';
import { countedRecords } from '@clinical-events/collector/commands/counting';
import { DAY_MS } from '@clinical-events/collector/quantity';
import type { Clock } from '@clinical-events/collector/records/vocabulary';
import { cursorAt, type EventLog } from '@clinical-events/collector/store/contract/events';
import { type ReportNumbers, numbersOf } from './report-numbers.js';
import { type ReportPeriod, RunReport } from './run-report.js';

/** The runs and the period of a report. */
export interface CountedRequest {
  readonly organisation: string | undefined;
  /** Only runs of these organisations and applications; by default all. */
  readonly organisations?: readonly string[] | undefined;
  readonly applications?: readonly string[] | undefined;
  /** MODEL_ID or MODEL_ID@VERSION. */
  readonly model: string | undefined;
  readonly models: ReportPeriod['models'];
  readonly since: number | undefined;
  readonly until: number | undefined;
  readonly clock: Clock;
}

/** The times of receipt of the first and the last event of a log. */
interface LogEnds {
  readonly events: number;
  readonly first: number;
  readonly last: number;
}

/** The length of the period without --since. */
export const DEFAULT_DAYS = 90;
/**
 * @param source does not change meanwhile.
 * @param onPage called after each part with the sequence that was reached and the events that were read; what
 *   it throws ends the counting.
 */
export async function countReport(
  { catalogue, log }: { readonly catalogue: Catalogue; readonly log: EventLog },
  request: CountedRequest,
  onPage: (sequence: number, events: number) => void,
): Promise<ReportNumbers> {
  const now = Date.now();
  const ends = await logEnds(log);
  const report = new RunReport(periodFrom(request, ends, now));
  const { until, clock } = report.period;
  const { organisation, organisations, applications, model, models } = request;
  // With the senders' clocks, a run that began before or after the period may have events in it.
  const begun = clock === 'received' ? until : undefined;
  const filter = { organisation, organisations, applications, models, until: begun };
  for await (const sequence of countedRecords(catalogue, filter, (run) => report.add(run))) {
    onPage(sequence, report.eventsRead);
    await breath();
  }
  return numbersOf(report, { madeAt: now, organisation, model, logged: ends.events });
}

/**
 * The period of the report. Without --until it ends with the log; without --since it is the last 90 UTC days,
 * from the first event on. With the senders' clocks, the first event is known only after all events are
 * counted.
 * @param now used in place of the end of a log without events.
 */
function periodFrom(
  { since, until, clock, models }: CountedRequest,
  log: LogEnds,
  now: number,
): ReportPeriod {
  const asOf = log.events === 0 ? now : log.last;
  const end = until ?? Math.max(asOf, since ?? 0) + 1;
  if (since !== undefined) return { since, fromFirstEvent: false, until: end, clock, asOf, models };
  const days = dayOf(end - 1) - (DEFAULT_DAYS - 1) * DAY_MS;
  const began = clock === 'received' && log.events > 0 ? Math.min(dayOf(log.first), dayOf(end - 1)) : days;
  return {
    since: Math.max(days, began),
    fromFirstEvent: clock === 'sender',
    until: end,
    clock,
    asOf,
    models,
  };
}

function dayOf(time: number): number {
  return Math.floor(time / DAY_MS) * DAY_MS;
}

/** Reads only the first events and the last segments. */
async function logEnds(log: EventLog): Promise<LogEnds> {
  const first = await receivedIn(log, 1, true);
  if (first === undefined) return { events: 0, first: 0, last: 0 };
  const events = (await log.end()).sequence - 1;
  let last: number | undefined;
  // The newest entries may be the log's own, which are not events.
  for (let back = 1; last === undefined && back <= events; back *= 4)
    last = await receivedIn(log, Math.max(1, events - back + 1), false);
  return { events, first, last: last ?? first };
}

/**
 * The time of receipt of the first or the last event from a sequence number on; undefined without an event.
 */
async function receivedIn(log: EventLog, from: number, isFirst: boolean): Promise<number | undefined> {
  let last: number | undefined;
  for await (const batch of log.pass(cursorAt(from))) {
    for (const { isOwn, receivedAt } of batch) {
      if (isOwn) continue;
      if (isFirst) return receivedAt;
      last = receivedAt;
    }
  }
  return last;
}
