/** Runs for the tests of reports; their events have everything that a report must not show. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import { callSummariesOf, summaryOf } from '../../collector/src/catalogue/run-summary.js';
import { assembleRecord, assembleRun } from '../../collector/src/records/assemble.js';
import { numbersOf, type ReportNumbers } from '../src/report-numbers.js';
import { RunReport, type ReportPeriod } from '../src/run-report.js';
import type { CountedRun } from '../../collector/src/records/counted-run.js';
import type { RunEvent } from '../../collector/src/records/run-event.js';
import { event, id } from '../../collector/test/records/run-events.js';

const DAY = 86_400_000;

export interface WantedRun {
  readonly n: number;
  /** Days after 1 March 2026 on which it began. */
  readonly day?: number;
  readonly model?: string;
  readonly version?: string;
  readonly organisation?: string;
  /** Types of outcomes in order, a day apart, from `after` days after the start on. */
  readonly outcomes?: readonly unknown[];
  readonly after?: number;
  readonly feedback?: readonly Readonly<Record<string, unknown>>[];
  readonly latencyMs?: number;
  readonly withoutStart?: true;
  /** A single outcome without a run and a parent. */
  readonly ofNoRun?: true;
  /** The ending of its call, from an instrumentation. */
  readonly ended?: Readonly<Record<string, unknown>>;
  readonly attempt?: number;
  /** Further calls, a minute apart. */
  readonly calls?: readonly {
    readonly model: string;
    readonly version: string;
    readonly target?: string;
    readonly ended?: Readonly<Record<string, unknown>>;
  }[];
  /** By how many days the collector's clock is later than the sender's. */
  readonly late?: number;
  /** A bit for each of its events whose payload cannot be read. */
  readonly unreadable?: number;
}

/** Texts in the payload of every run, and in no report. */
export const SECRETS = [
  'clinician-8841',
  'patient-30977',
  'Estimate the risk',
  'High risk',
  'urn:output',
  'They said',
];

export function runOf(wanted: WantedRun): ClinicalRecord {
  return assembleRecord(eventsOf(wanted));
}

/** The run as the catalogue has it. */
export function countedOf(wanted: WantedRun): CountedRun {
  const events = eventsOf(wanted).map((each, i) =>
    ((wanted.unreadable ?? 0) >> i) & 1 ? { ...each, body: undefined } : each,
  );
  const run = assembleRun(events);
  const summary = summaryOf(run);
  return {
    ...summary,
    summary,
    calls: callSummariesOf(run),
    eachEvent(visit) {
      for (const { event, body } of events)
        visit(event.kind, event.receivedAt, body && Date.parse(body.timestamp));
    },
  };
}

function eventsOf(wanted: WantedRun): RunEvent[] {
  const { n, day = 0, late = 0, organisation = 'default', after = 2, latencyMs = 500 } = wanted;
  const start = Date.UTC(2026, 2, 1, 8) + day * DAY;
  const run = wanted.ofNoRun ? null : id(n);
  let next = n * 100;
  const made = (
    kind: Parameters<typeof event>[0]['kind'],
    at: number,
    more: Readonly<Record<string, unknown>>,
  ) =>
    event({
      kind,
      n: next++,
      run,
      organisation,
      at: new Date(at).toISOString(),
      received: new Date(at + late * DAY).toISOString(),
      more,
    });
  const model = {
    model_id: wanted.model ?? 'sepsis-risk',
    ...(wanted.ended === undefined && { model_version: wanted.version ?? '4.2.0' }),
  };
  const system_metadata = { instrumentation: { by: 'openai', attempt: wanted.attempt } };
  const captured = { artifact_type: 'other', artifact_uri: 'urn:x:1', ...wanted.ended };
  const { outcomes = [], feedback = [], calls = [] } = wanted;
  if (wanted.ofNoRun) return [made('outcome', start, {})];
  return [
    ...(wanted.withoutStart ? [] : [made('inference-start', start, { model_instance: model })]),
    wanted.ended === undefined
      ? made('human-output', start + latencyMs, {})
      : made('internal-artifact', start + latencyMs, { artifact: captured, system_metadata }),
    ...calls.flatMap(({ model: model_id, version: model_version, target, ended }, i) => {
      const at = start + (i + 1) * 60_000;
      const call = made('inference-start', at, {
        model_instance: { model_id, model_version },
        ...(target !== undefined && { target_identity: { target_id: target } }),
      });
      const parent_event_id = call.event.eventId;
      const artifact = { ...captured, ...ended };
      const more = { parent_event_id, artifact, system_metadata };
      return [call, ...(ended === undefined ? [] : [made('internal-artifact', at + 1000, more)])];
    }),
    ...outcomes.map((type, i) =>
      made('outcome', start + (after + i) * DAY, {
        outcome: { outcome_type: type, description: 'They said' },
      }),
    ),
    ...feedback.map((said) =>
      made('user-feedback', start + 1000, { feedback: { ...said, comment: 'They said' } }),
    ),
  ];
}

export const MARCH: ReportPeriod = {
  since: Date.UTC(2026, 2, 1),
  until: Date.UTC(2026, 3, 1),
  fromFirstEvent: false,
  clock: 'sender',
  asOf: Date.UTC(2026, 3, 10),
};

export function reported(runs: readonly WantedRun[], period: ReportPeriod = MARCH): ReportNumbers {
  const report = new RunReport(period);
  for (const run of runs) report.add(countedOf(run));
  return numbersOf(report, {
    madeAt: Date.UTC(2026, 3, 11),
    organisation: undefined,
    model: undefined,
    logged: runs.length,
  });
}
