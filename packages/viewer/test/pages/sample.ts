/** What the pages show in tests: the runs of a demonstration, and hostile texts. */
import { DemoScript } from '../../../../tools/demo/src/demo-script.js';
import { textOf } from '../../../../tools/demo/src/event-file.js';
import { summaryOf } from '../../../collector/src/catalogue/run-summary.js';
import { assembleRecord, assembleRun } from '../../../collector/src/records/assemble.js';
import type { RunEvent } from '../../../collector/src/records/run-event.js';
import { event, eventFromText, id } from '../../../collector/test/records/run-events.js';
import { reported } from '../../../report/test/report-runs.js';
import type { FoundProof, FoundRun, Role } from '../../src/contract.js';
import type { Frame, ReportShown, RunShown, RunsShown } from '../../src/pages/page-types.js';

const DAY = 86_400_000;
const UNTIL = Date.UTC(2026, 10, 24);

export function foundRun(events: readonly RunEvent[], holds: readonly string[] = []): FoundRun {
  const part = { from: 0, until: events.length };
  return { summary: summaryOf(assembleRun(events)), record: assembleRecord(events), part, holds };
}

/** Runs as they come from `collector demo`, newest first. */
export function demoRuns(): FoundRun[] {
  const script = new DemoScript({ seed: '35', runs: 60, period: { since: UNTIL - 30 * DAY, until: UNTIL } });
  const runs = new Map<string, Map<string, RunEvent>>();
  let sequence = 0;
  for (const sent of script.events()) {
    const { eventId, kind, parentEventId } = sent.planned;
    const { runId } = sent.run;
    const events = runs.get(runId) ?? new Map<string, RunEvent>();
    runs.set(runId, events);
    if (events.has(eventId)) continue;
    sequence++;
    const stored = { kind, eventId, runId, parentId: parentEventId ?? undefined, sequence };
    const receivedAt = sent.at + 40;
    events.set(
      eventId,
      eventFromText(textOf(sent), { ...stored, receivedAt, organisation: 'st-anne-hospital' }),
    );
  }
  const found = [...runs.values()].map((events) => foundRun([...events.values()]));
  return found.toSorted((a, b) => b.summary.began.received - a.summary.began.received);
}

/** Characters that are invisible or change the text around them, and markup. */
export const HOSTILE =
  `"><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;' style='x\u202edesrever\u202c ` +
  'zero\u200bwidth\u00ad \u061c\u200e\u2066isolate\u2069 \0nul \u001b[31m \ud800half \u2028line https://elsewhere.example/';

/** A run in which each text is this one, with a hold, unreadable events and a contradiction. */
export function runOfText(text: string): FoundRun {
  const more = {
    [text]: text,
    nested: { [text]: [text, { deep: [[[[[text]]]]] }, 1.5, null] },
  };
  const system_metadata = { app_name: text, hostname: text, instrumentation: { by: text } };
  const made = (kind: Parameters<typeof event>[0]['kind'], n: number, payload: Record<string, unknown>) =>
    event({ kind, n, parent: n === 1 ? null : id(1), more: { ...payload, ...more, system_metadata } });
  const unreadable = (n: number, payloadState: 'encrypted' | 'erased') =>
    event({ kind: 'internal-artifact', n, payloadState });
  const call = {
    artifact_type: 'other',
    artifact_uri: text,
    ending: 'failed',
    status: 429,
    error_name: text,
  };
  const events = [
    made('inference-start', 1, {
      model_instance: { model_id: text, model_version: text, ...more },
      user_identity: { caller_id: text, caller_type: text },
      target_identity: { target_id: text },
      inputs: { prompt: `${text}\n${'long '.repeat(900)}\n${text}` },
    }),
    made('internal-artifact', 2, { artifact: { ...call, ...more } }),
    made('human-output', 3, { output: { output_uri: text, summary: text, ...more } }),
    made('outcome', 4, { outcome: { outcome_type: text, description: text, '': '', ...more } }),
    made('user-feedback', 5, { feedback: { feedback_type: 'rating', rating_value: 4, comment: text } }),
    made('inference-start', 6, {
      target_identity: { target_id: 'another' },
      user_identity: { caller_id: 'else' },
    }),
    ...[unreadable(7, 'encrypted'), { ...unreadable(8, 'erased'), body: undefined }],
  ];
  return foundRun(
    events.map((each) => (each.event.payloadState === 'plain' ? each : { ...each, body: undefined })),
    ['a1b2c3d4e5f6'],
  );
}

export function frame(role: Role, more: Partial<Frame> = {}): Frame {
  const caller = role === 'clinician' ? 'clinician-17' : undefined;
  const scope = { organisations: undefined, applications: undefined, caller };
  const person = {
    kind: 'oidc' as const,
    name: 'reviewer-7@st-anne.example',
    callerId: 'clinician-17',
    groups: [],
  };
  return {
    acting: {
      person,
      role,
      scope,
      reason: role === 'break-glass' ? 'Patient in resuscitation room 2' : undefined,
    },
    otherRoles: role === 'auditor' ? [] : [{ role: 'auditor', path: '/auditor/runs' }],
    state: {
      ...{ catalogue: 'ready', progress: 1, reason: undefined, keys: 'readable' },
      ...{ entries: 48_213, asOf: '2026-11-24T08:14:02.000Z' },
    },
    grantedUntil: role === 'break-glass' ? '2026-11-24T08:29:00.000Z' : undefined,
    signOutToken: 'sign-out-token',
    formToken: 'form-token',
    ...more,
  };
}

const NAMES = {
  organisations: ['st-anne-hospital', 'north-clinic'],
  applications: ['deterioration-watch', 'ward-copilot'],
  models: ['deterioration-index', 'ward-assistant'],
};

export function runsShown(role: Role, found: readonly FoundRun[], more: Partial<RunsShown> = {}): RunsShown {
  return {
    ...frame(role),
    form: {},
    problem: undefined,
    names: NAMES,
    mayNamePersons: role !== 'auditor',
    list: { runs: found.map(({ summary }) => summary), hasMore: true },
    page: 1,
    ...more,
  };
}

export function runShown(role: Role, run: FoundRun, more: Partial<RunShown> = {}): RunShown {
  return { ...frame(role), run, withContents: role !== 'auditor', ...more };
}

export function reportShown(more: Partial<ReportShown> = {}): ReportShown {
  const outcomes = ['validated', 'contradicted', 'validated'];
  const runs = Array.from({ length: 60 }, (_, n) => ({
    ...{ n: n + 1, day: n % 28, version: n > 30 ? '5.0.0' : '4.2.0' },
    outcomes: outcomes.slice(n % 3, (n % 3) + 1),
    feedback: [{ feedback_type: 'thumbs', direction: n % 4 === 0 ? 'down' : 'up' }],
  }));
  return {
    ...frame('reviewer'),
    form: {},
    problem: undefined,
    names: NAMES,
    numbers: reported(runs),
    ...more,
  };
}

export const PROOF: FoundProof = {
  text: 'c2sp.org/tlog-proof@v1\nindex 4934\n' + 'q83vEjRWeJ+rze8SNFZ4n6vN7xI0VnifqzXvEjRWeJ8=\n'.repeat(12),
  ...{ sequence: 4935, eventId: id(3), recordId: id(1) },
  ...{ checkpointAt: '2026-11-24T08:14:02.000Z', checkpointSize: 48_213 },
  cosignedBy: ['witness.st-anne.example'],
  verifierKey: 'log.st-anne.example+0b2c5a3e+AfL3kQm9n2Zr8o0lTq5n3hQ0b6w1',
};
