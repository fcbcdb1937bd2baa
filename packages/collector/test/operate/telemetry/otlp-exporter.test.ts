import { describe, expect, test } from 'vitest';
import type { Running } from '../../running/collector-process.js';
import { expectAllStored, Load } from '../../running/load.js';
import { exportingCollectors } from './exporting-collector.js';
import { oneReceiver } from './otlp-receiver.js';

const receiver = oneReceiver();
const collector = exportingCollectors();

/** Stops it in order. @returns what the log says of the export. */
async function stopped(one: Running): Promise<string[]> {
  expect(await one.stop()).toBe(0);
  return one.output.stderr.split('\n').filter((line) => line.includes('OpenTelemetry export fails'));
}

describe('[R-846] whatever the receiver does, events are taken and the collector stops in time', () => {
  const eager = () => ({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_METRIC_EXPORT_INTERVAL: '50',
    OTEL_TRACES_SAMPLER: 'always_on',
  });
  const sent = async (one: Running, key: string): Promise<Load> => {
    const load = new Load(key, { connections: 8 });
    await load.run(one.port, () => load.acknowledged.size >= 300);
    expect(load.refusals.size).toBe(0);
    return load;
  };

  test.each([
    [403, 'HTTP 403'],
    [503, 'HTTP 503'],
    [302, 'HTTP 302'],
    ['endless', 'the answer is too long'],
    ['partly', '3 of a batch were rejected'],
  ] as const)('it answers %s', async (behaviour, reason) => {
    receiver.behaviour = behaviour;
    const { collector: one, key, dataDir } = await collector(eager());
    const load = await sent(one, key);
    const lines = await stopped(one);
    // One line a signal in this minute, however often it has failed.
    expect(receiver.exports.length).toBeGreaterThan(3);
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ reason, level: 'warn' });
    await expectAllStored(dataDir, load);
  });

  test('it takes what it is sent and answers what is no OTLP', async () => {
    receiver.behaviour = 'garbage';
    const { collector: one, key } = await collector(eager());
    await sent(one, key);
    expect(await stopped(one)).toEqual([]);
  });

  test('it never answers', async () => {
    receiver.behaviour = 'nothing';
    const {
      collector: one,
      key,
      dataDir,
    } = await collector({ ...eager(), OTEL_EXPORTER_OTLP_TIMEOUT: '3600000' });
    const load = await sent(one, key);
    await stopped(one);
    await expectAllStored(dataDir, load);
  });

  test('it is slower than the time-out', async () => {
    receiver.behaviour = 'nothing';
    const { collector: one, key } = await collector({ ...eager(), OTEL_EXPORTER_OTLP_TIMEOUT: '100' });
    await sent(one, key);
    await expect.poll(() => one.output.stderr).toContain('no answer within 100 ms');
    const lines = await stopped(one);
    expect(lines).toHaveLength(2);
  });

  test('it is not there, and comes', async () => {
    const { port } = receiver;
    const environment = eager();
    await receiver.close();
    const { collector: one, key } = await collector(environment);
    await sent(one, key);
    await expect.poll(() => one.output.stderr).toContain('ECONNREFUSED');
    await receiver.listen(port);
    await expect.poll(() => one.output.stderr).toContain('OpenTelemetry export works again');
    await stopped(one);
    expect(receiver.point('collector_ledger_events')?.asDouble).toBeGreaterThanOrEqual(300);
  });
});
