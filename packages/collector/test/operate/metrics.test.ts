import { setTimeout as sleep } from 'node:timers/promises';
import { ERRORS, EVENT_KINDS } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commit, version } from '../../src/commands/typed.js';
import { WARNINGS } from '../../src/operate/warnings.js';
import { createKey } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { oneCollector } from '../running/one-collector.js';
import { RawConnection, requestBytes, send } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';
import { get, getJson, managementPort, Scrape } from './managed.js';

const collector = oneCollector();
const port = () => managementPort(collector.running);

/** The scrape once it says this: an answer made for another scrape may be a quarter of a second old. */
async function scrapeUntil(holds: (scrape: Scrape) => boolean): Promise<Scrape> {
  let scrape = await Scrape.of(port());
  await expect
    .poll(async () => {
      scrape = await Scrape.of(port());
      return holds(scrape);
    })
    .toBe(true);
  return scrape;
}

const requests = (scrape: Scrape, kind: string, code: string) =>
  scrape.value('collector_requests_total', { kind, code }) ?? NaN;

describe('[R-833] metrics', () => {
  test('count every request by kind, status and code, and events by outcome', async () => {
    const { key } = collector;
    const limited = await createKey(collector.dataDir, '--rate-limit', '0.001/s:1');
    const event = sampleEvent('human-output');
    const text = JSON.stringify(event);
    for (const body of [text, text]) {
      expect((await post(collector.port, key, body, { kind: 'human-output' })).status).toBe(201);
    }
    const changed = JSON.stringify({ ...event, output: { summary: 'other' } });
    expect((await post(collector.port, key, changed, { kind: 'human-output' })).status).toBe(409);
    expect((await post(collector.port, key, '{}', { kind: 'outcome' })).status).toBe(400);
    expect((await post(collector.port, 'nonsense', '{}', { kind: 'outcome' })).status).toBe(401);
    expect((await send(collector.port, { target: '/nothing', key })).status).toBe(404);
    expect((await send(collector.port, { method: 'GET', key })).status).toBe(405);
    await expect
      .poll(async () => (await post(collector.port, limited, JSON.stringify(sampleEvent()))).status)
      .toBe(201);
    expect((await post(collector.port, limited, '{}')).status).toBe(429);
    const scrape = await scrapeUntil((now) => requests(now, 'outcome', 'rate_limited') === 1);
    expect(requests(scrape, 'human-output', 'accepted')).toBe(2);
    expect(requests(scrape, 'human-output', 'event_id_conflict')).toBe(1);
    expect(requests(scrape, 'outcome', 'validation_failed')).toBe(1);
    expect(requests(scrape, 'outcome', 'accepted')).toBe(1);
    expect(requests(scrape, 'outcome', 'method_not_allowed')).toBe(1);
    expect(requests(scrape, 'none', 'not_found')).toBe(1);
    const outcomes = (outcome: string) => scrape.value('collector_events_total', { outcome });
    expect([outcomes('accepted'), outcomes('duplicate'), outcomes('conflict')]).toEqual([2, 1, 1]);
    expect(outcomes('faulty')).toBe(1);
    expect(scrape.value('collector_ledger_events')).toBe(2);
    expect(scrape.value('collector_ledger_bytes')).toBeGreaterThan(2 * 300);
    const acks = scrape.family('collector_ack_duration_seconds').metrics[0];
    expect(acks?.count).toBe('3');
    expect(Number(acks?.sum)).toBeGreaterThan(0);
    const flushes = scrape.family('collector_ledger_flush_duration_seconds').metrics[0];
    // The head of the access log, which has a line of the key, may be there already, in a batch of its own or not.
    const own = (scrape.value('collector_ledger_entries') ?? NaN) - 2;
    expect([0, 1]).toContain(own);
    expect(Number(flushes?.count)).toBeGreaterThanOrEqual(2);
    expect(Number(flushes?.count)).toBeLessThanOrEqual(2 + own);
    expect(Object.keys(flushes?.buckets ?? {})).toEqual(
      expect.arrayContaining(['0.0002', '0.001', '5', '+Inf']),
    );
    expect(Number(scrape.family('collector_batch_events').metrics[0]?.sum)).toBe(5);
    const keyId = limited.slice(4, 16);
    expect(scrape.value('collector_key_rate_limited_total', { key_id: keyId })).toBe(1);
    expect(scrape.value('collector_key_requests_total', { key_id: keyId })).toBe(2);
    expect(scrape.value('collector_key_last_used_timestamp_seconds', { key_id: keyId })).toBeGreaterThan(
      Date.now() / 1000 - 36_000,
    );
    // The console's numbers are the same.
    const state = await getJson(port(), '/console/state.json');
    expect(state).toMatchObject({
      totals: {
        accepted: { 'human-output': 2, outcome: 1 },
        refused: { event_id_conflict: 1, rate_limited: 1, not_found: 1 },
        repeats: 1,
        conflicts: 1,
      },
      ledger: { state: 'open', events: 2 },
      health: { live: true, ready: true },
      sinks: [],
    });
  });

  test('count a request once for its key, in however many pieces it comes', async () => {
    const key = await createKey(collector.dataDir);
    const uses = (scrape: Scrape) =>
      scrape.value('collector_key_requests_total', { key_id: key.slice(4, 16) }) ?? 0;
    const sizes = [100, 20_000, 40_000, 200_000];
    for (const size of sizes) {
      const connection = await RawConnection.open(collector.port);
      onTestFinished(() => connection.close());
      const bytes = requestBytes({
        key,
        body: JSON.stringify(sampleEvent('outcome', { text: 'x'.repeat(size) })),
      });
      connection.write(bytes.subarray(0, bytes.length / 2));
      // Usually long enough for the first half to be read by itself.
      await sleep(20);
      connection.write(bytes.subarray(bytes.length / 2));
      expect((await connection.answer())?.status).toBe(201);
    }
    await scrapeUntil((scrape) => uses(scrape) >= sizes.length);
    const seen = await scrapeUntil((scrape) => scrape.value('collector_queue_events') === 0);
    expect(uses(seen)).toBe(sizes.length);
  });

  test('include the process, the queue, the disk, the checkpoint and the index', async () => {
    expect((await post(collector.port, collector.key, JSON.stringify(sampleEvent()))).status).toBe(201);
    const scrape = await scrapeUntil(
      (now) =>
        // Of the entries, and not the events: a head of the access log, which has a line of a key by now, is one too.
        now.value('collector_checkpoint_entries') === now.value('collector_ledger_entries') &&
        now.value('collector_index_entries') === now.value('collector_ledger_entries'),
    );
    const now = Date.now() / 1000;
    for (const [name, least, most] of [
      ['process_start_time_seconds', now - 36_000, now],
      ['nodejs_eventloop_lag_p99_seconds', 0, 60],
      ['collector_queue_capacity_events', 8192, 8192],
      ['collector_queue_capacity_bytes', 64 << 20, 64 << 20],
      ['collector_queue_events', 0, 0],
      ['collector_disk_free_bytes', 1, Infinity],
      ['collector_disk_size_bytes', 1, Infinity],
      ['collector_checkpoint_timestamp_seconds', now - 36_000, now],
      ['collector_checkpoint_failing', 0, 0],
      ['collector_ready', 1, 1],
    ] as const) {
      expect(scrape.value(name), name).toBeGreaterThanOrEqual(least);
      expect(scrape.value(name), name).toBeLessThanOrEqual(most);
    }
    const build = { version: version(), commit: commit(), node_version: process.version };
    expect(scrape.value('collector_build_info', build), '[R-2058]').toBe(1);
    expect(scrape.value('collector_ledger_state', { state: 'open' })).toBe(1);
    for (const { name, help } of scrape.families) expect(help.length, name).toBeGreaterThan(8);
  });

  test('come as OpenMetrics on request, with the same numbers, and otherwise as text', async () => {
    const open = await get(port(), '/metrics', {
      headers: { Accept: 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5' },
    });
    expect(open.headers['content-type']).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8');
    expect(open.body).toMatch(/\n# EOF\n$/);
    expect(open.body).toContain('# TYPE collector_requests counter');
    const plain = await get(port(), '/metrics');
    expect(plain.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    // And the other way round: what one writes must not change the other.
    expect(plain.body).toContain('# TYPE collector_requests_total counter');
    const line = /^collector_requests_total\{kind="human-output",status="201",code="accepted"\} \d+$/m;
    expect(line.exec(open.body)?.[0]).toBe(line.exec(plain.body)?.[0]);
  });

  test('have no label from a request: random requests change no name and no label', async () => {
    const labels = async () => {
      const all = new Set<string>();
      for (const { name, metrics } of (await Scrape.of(port())).families) {
        // Of the runtime itself: kinds of its own handles and collections.
        if (!name.startsWith('collector_')) continue;
        for (const { labels: own = {} } of metrics) all.add(`${name} ${JSON.stringify(own)}`);
      }
      return all;
    };
    const before = await labels();
    const word = fc.string({
      unit: fc.constantFrom('a', 'b', '/', '"', '\\', '{', '}', '=', '\n', '%', '?', '&', '.', 'é'),
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(word, word, word, fc.boolean(), async (path, presented, body, keyed) => {
        const target = `/event/${encodeURI(path)}`.replaceAll(/\s/g, '');
        const header = presented.replaceAll(/[^\x20-\x7e]/g, '') || 'x';
        await send(collector.port, { target, key: keyed ? collector.key : header, body });
        await send(collector.port, { key: collector.key, body });
        await get(port(), `/${encodeURI(path)}?${encodeURIComponent(presented)}`);
      }),
      { numRuns: 60 },
    );
    const after = await labels();
    expect([...after].filter((one) => !before.has(one))).toEqual([]);
    const values = (label: string) =>
      new Set(
        [...after].flatMap((one) => {
          const own = JSON.parse(one.slice(one.indexOf(' ') + 1)) as Record<string, string>;
          return own[label] === undefined ? [] : [own[label]];
        }),
      );
    expect(values('kind')).toEqual(new Set([...EVENT_KINDS, 'otlp', 'none']));
    expect(values('code')).toEqual(new Set(['accepted', ...Object.keys(ERRORS)]));
    expect(values('id')).toEqual(new Set(Object.keys(WARNINGS)));
    expect(values('organisation')).toEqual(new Set(['default']));
  });

  test('[R-833] neither they nor the console contain a key, a payload, an id of an event or of a person, or a path', async () => {
    const event = sampleEvent('inference-start', {
      run_id: '0b0e7c3e-6f5a-4b1e-9c52-3f7d6f0a9a11',
      inputs: { prompt: 'UNHEARD-OF-SYMPTOM' },
    });
    expect(
      (await post(collector.port, collector.key, JSON.stringify(event), { kind: 'inference-start' })).status,
    ).toBe(201);
    await post(collector.port, collector.key, JSON.stringify({ ...event, event_id: 'UNHEARD-OF-ID' }));
    const texts = await Promise.all(['/metrics', '/console/state.json'].map((path) => get(port(), path)));
    for (const { body } of texts) {
      for (const secret of [
        'UNHEARD-OF',
        'clinician-17',
        'patient-4711',
        event.event_id,
        '0b0e7c3e',
        collector.key.slice(17),
        collector.dataDir,
      ]) {
        expect(body).not.toContain(secret);
      }
    }
  });
});
