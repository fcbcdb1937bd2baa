/** Sampling as the ledger gets to see it. */
import { expect, test } from 'vitest';
import { fakeCollector } from '../running/fake-collector.js';
import { hurriedClient } from '../running/hurried-client.js';

const MODEL = { model_id: 'triage', model_version: '2.1' };

interface Counts {
  readonly runs: number;
  readonly events: number;
}

test('[R-863] from what is in the ledger the number of all runs and events can be told', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url, sampling: { rate: 0.2 } });
  for (let i = 0; i < 500; i++) {
    const run = log.startRun({ model: MODEL });
    run.output({ summary: 's' });
  }
  await log.close();
  const { accepted } = collector;
  const starts = accepted.filter(({ path }) => path.endsWith('inference-start'));
  const summaries = accepted.filter(({ event }) => event.run_id === undefined);
  const counts = accepted.flatMap(
    ({ event }) => (event.system_metadata['not_captured'] as Counts | undefined) ?? [],
  );
  const sum = (of: (counts: Counts) => number) => counts.map(of).reduce((a, b) => a + b, 0);
  expect(starts.length + sum(({ runs }) => runs)).toBe(500);
  expect(accepted.length - summaries.length + sum(({ events }) => events)).toBe(1000);
  expect(starts.length).toBeGreaterThan(50);
  expect(starts.length).toBeLessThan(200);
  for (const { event } of starts) {
    expect(event.system_metadata['sampling']).toEqual({ rate: 0.2, selected: true });
  }
});

test('[R-863] the client that closes tells what nothing else has told, in an artifact of no run', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url, sampling: { rate: 0, risk: () => false } });
  const run = log.startRun({ model: MODEL });
  expect(await run.output({ summary: 's' })).toBe('held');
  await log.close();
  expect(collector.accepted).toHaveLength(1);
  const [summary] = collector.accepted;
  expect(summary?.path).toBe('/event/internal-artifact');
  expect(summary?.event).toMatchObject({
    artifact: { artifact_type: 'other', artifact_uri: `urn:uuid:${summary?.event.event_id}` },
    system_metadata: { not_captured: { runs: 1, events: 2, models: [{ ...MODEL, runs: 1, events: 2 }] } },
  });
});

test('[R-863] a run that turns out risky is there with its own times and ids, and in full', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({
    url: collector.url,
    sampling: {
      rate: 0,
      risk: ({ kind, payload }) => kind === 'human-output' && payload.output['alarm'] === true,
    },
    content: { put: () => Promise.resolve() },
  });
  const quiet = log.startRun({ model: MODEL });
  quiet.output({ summary: 'nothing' });
  const run = log.startRun({ model: MODEL });
  const tool = run.artifact({ artifact_type: 'tool_call' }, { content: 'args' });
  await new Promise((resolve) => setTimeout(resolve, 20));
  const before = Date.now();
  run.output({ alarm: true });
  await log.flush();
  const events = collector.accepted.map(({ event }) => event);
  expect(new Set(events.map((event) => event.run_id))).toEqual(new Set([run.id]));
  const start = events.find((event) => event.event_id === run.startEventId);
  expect(Date.parse(start?.timestamp ?? '')).toBeLessThan(before);
  expect(start?.system_metadata['sampling']).toEqual({ rate: 0, selected: false });
  expect(events.find((event) => event.event_id === tool.eventId)).toBeDefined();
  expect(events.find((event) => 'output' in event)?.system_metadata['sampling']).toEqual({ trigger: 'risk' });
});

test('[R-863] counts that an event could not carry into the spool are carried by the next', async () => {
  const collector = await fakeCollector();
  let rate = 0;
  const { log } = hurriedClient({
    url: collector.url,
    sampling: {
      risk: ({ payload }) => 'model_instance' in payload && rate === 1,
      rate: 0,
      window: { runs: 0 },
    },
  });
  log.startRun({ model: MODEL });
  rate = 1;
  const refused = log.startRun({ model: MODEL, inputs: { prompt: 5 } as unknown as { prompt: string } });
  await expect(refused.started).rejects.toThrow('not valid');
  log.startRun({ model: MODEL });
  await log.flush();
  expect(collector.accepted).toHaveLength(1);
  expect(collector.accepted[0]?.event.system_metadata['not_captured']).toMatchObject({ runs: 1, events: 1 });
});

test('[R-863] without sampling nothing is said of it', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  log.startRun({ model: MODEL });
  await log.close();
  expect(Object.keys(collector.accepted[0]?.event.system_metadata ?? {})).toEqual(['hostname', 'proc_id']);
});
