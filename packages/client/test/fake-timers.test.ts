/** Test runners replace timers and clocks, before or after loading a client. It must not wait for these. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { createClient } from '../src/index.js';
import { fakeCollector } from './running/fake-collector.js';
import { temporaryDirectory } from './running/hurried-client.js';

test.each(['fsync', 'os', 'memory'] as const)(
  '[R-861] with replaced timers and clocks, capture, flush and close end (%s)',
  async (durability) => {
    const collector = await fakeCollector();
    const log = createClient({
      ...{ url: collector.url, apiKey: 'key', spool: { directory: temporaryDirectory(), durability } },
    });
    vi.useFakeTimers({
      toFake: [
        ...(['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate'] as const),
        ...(['clearImmediate', 'Date', 'performance', 'queueMicrotask'] as const),
      ],
    });
    onTestFinished(() => void vi.useRealTimers());
    const run = log.startRun({ model: { model_id: 'triage' } });
    expect(await run.started).toBe('durable');
    expect(await run.output({ output_uri: 'urn:x:1' })).toBe('durable');
    expect(await log.flush()).toEqual({ waiting: 0 });
    expect(collector.accepted).toHaveLength(2);
    expect(await log.close()).toMatchObject({ waiting: 0 });
  },
);

test('[R-861] with replaced timers, close ends while the collector does not answer', async () => {
  const collector = await fakeCollector(() => true);
  const log = createClient({ url: collector.url, apiKey: 'key', spool: { durability: 'memory' } });
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  await log.startRun({ model: { model_id: 'triage' } }).started;
  expect(await log.close({ timeoutMs: 50 })).toEqual({ waiting: 1 });
});
