import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { EVENT_KINDS } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { start, temporaryDirectory } from '../../running/collector-process.js';
import { issueKey } from '../../running/issued-keys.js';
import { send } from '../../running/raw-http.js';
import { sampleEvent } from '../../running/sample-events.js';
import { oneReceiver } from './otlp-receiver.js';

const receiver = oneReceiver();
const SAMPLED = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

test('[R-846] no exported byte is of a body, a key, a header, a path, or an id of an event or a person', async () => {
  const dataDir = temporaryDirectory();
  const key = (await issueKey(dataDir)).text;
  const collector = await start(dataDir, [], [], {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_TRACES_SAMPLER: 'always_on',
    OTEL_METRIC_EXPORT_INTERVAL: '50',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=receivers-password',
  });
  // The key's secret; what comes before it is its id, which metrics tell as /metrics does.
  const words = [
    'receivers-password',
    key.slice(17),
    'clinician-17',
    'patient-4711',
    'Chest pain',
    dataDir,
    'ward-7',
  ];
  const word = () => {
    const made = `w${randomBytes(9).toString('hex')}`;
    words.push(made);
    return made;
  };
  const place = fc.constantFrom(
    ...[
      'body',
      'id',
      'member',
      'key',
      'target',
      'query',
      'tracestate',
      'baggage',
      'traceparent',
      'user-agent',
      'type',
    ],
  );
  let requests = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...EVENT_KINDS),
      fc.uniqueArray(place, { minLength: 1, maxLength: 6 }),
      async (kind, places) => {
        const has = (name: string) => places.includes(name);
        const event = sampleEvent(kind, {
          ...(has('id') && { event_id: word() }),
          ...(has('member') && { [word()]: word() }),
          session: word(),
        });
        words.push(event.event_id);
        await send(collector.port, {
          target: has('target')
            ? `/event/${word()}`
            : `/event/${kind}${has('query') ? `?${word()}=${word()}` : ''}`,
          key: has('key') ? word() : key,
          headers: {
            'X-Type': has('type') ? word() : undefined,
            tracestate: has('tracestate') ? `${word()}=${word()}` : undefined,
            baggage: has('baggage') ? `${word()}=${word()}` : undefined,
            'User-Agent': has('user-agent') ? word() : undefined,
            traceparent: has('traceparent') ? word() : SAMPLED,
          },
          body: has('body') ? word() : JSON.stringify(event),
        });
        requests++;
      },
    ),
    { numRuns: 200 },
  );
  expect(await collector.stop()).toBe(0);
  expect(receiver.spans).toHaveLength(requests);
  expect(receiver.metrics.length).toBeGreaterThan(40);
  const sent = Buffer.concat(receiver.exports.map(({ bytes }) => bytes)).toString('latin1');
  for (const secret of words) expect(sent.includes(secret), secret).toBe(false);
  expect(collector.output.stderr).not.toContain('receivers-password');
  fs.rmSync(dataDir, { recursive: true, force: true });
});
