import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import zlib from 'node:zlib';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { eventsOf, type PreparedBatch } from '../../src/importing/batch.js';
import { prepare, type PreparationSettings } from '../../src/importing/preparation.js';
import { uuidText } from '../../src/store/text.js';
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS } from '../../src/ledger/ledger.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { outcomeOfSize, outcomeText, sampleEvent } from '../running/sample-events.js';

let directory: string;

beforeEach(() => {
  directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
});

function file(content: string | Uint8Array, name = 'events.ndjson'): string {
  const made = path.join(directory, name);
  fs.writeFileSync(made, content);
  return made;
}

async function batchesOf(
  inputs: readonly string[],
  more: Partial<PreparationSettings> = {},
  standardInput: AsyncIterable<Buffer> = (async function* () {})(),
): Promise<PreparedBatch[]> {
  const settings: PreparationSettings = {
    inputs,
    stated: { kind: 'outcome', organisation: undefined, profile: undefined },
    ...{ organisation: 'default', profile: 'minimum', maxBodyBytes: 1 << 20, maxDepth: 64, zone: undefined },
    ...more,
  };
  const batches: PreparedBatch[] = [];
  for await (const batch of prepare(settings, standardInput)) batches.push(batch);
  return batches;
}

function bodiesOf(batches: readonly PreparedBatch[]): string[] {
  return batches.flatMap(eventsOf).map(({ salted }) => salted.toString('utf8', 16));
}

/** What is said of each line that was refused, without its text. */
function refusalsOf(batches: readonly PreparedBatch[]): unknown[] {
  return batches.flatMap(({ refusals }) =>
    refusals.map(({ bytes, ...told }) => ({ ...told, held: bytes !== undefined })),
  );
}

describe('preparing an import [R-714]', () => {
  test('hands over each event with its ids, its exact text and its line', async () => {
    const [run, parent] = [randomUUID(), randomUUID()];
    const plain = JSON.stringify(
      sampleEvent('outcome', { run_id: run.toUpperCase(), parent_event_id: parent }),
    );
    const wrapped = JSON.stringify({
      kind: 'outcome',
      organisation: 'icu',
      profile: 'full',
      body: ` ${plain}`,
    });
    const batches = await batchesOf([file(`\ufeff${plain}\r\n\n  \t\n${wrapped}`)]);
    expect(batches).toHaveLength(1);
    const [batch] = batches;
    expect(batch).toMatchObject({ input: 0, lines: 4, empty: 2, fixed: 0, refusals: [] });
    expect(batch?.whole?.bytes).toBe(batch?.bytesRead);
    const events = batches.flatMap(eventsOf);
    const { event_id: id } = JSON.parse(plain) as { event_id: string };
    expect(events.map(({ eventId, runId }) => [uuidText(eventId), uuidText(runId)])).toEqual([
      [id, run],
      [id, run],
    ]);
    expect(bodiesOf(batches)).toEqual([plain, ` ${plain}`]);
    expect(
      events.map(({ line, organisation, profile, lineText }) => [
        line,
        organisation,
        profile,
        lineText.toString(),
      ]),
    ).toEqual([
      [1, 'default', 'minimum', plain],
      [4, 'icu', 'full', wrapped],
    ]);
  });

  test('tells every fault of a line and goes on behind it', async () => {
    const ids = Array.from({ length: 10 }, () => randomUUID());
    const good = outcomeText('1');
    const lines: (string | Buffer)[] = [
      good,
      outcomeText('1', ids[1]).slice(0, -1),
      Buffer.concat([Buffer.from('{"'), Buffer.from([0xc3, 0x28]), Buffer.from('":1}')]),
      outcomeText('1', ids[3]).replace('{', '{"a":1,"a":2,'),
      outcomeText('['.repeat(70) + ']'.repeat(70), ids[4]),
      outcomeText('1', ids[5]).replace('"outcome":{}', '"outcome":"MRN 4711"'),
      outcomeText('1', 'MRN 4711'),
      outcomeOfSize(1001),
      JSON.stringify({ kind: 'outcome', body: outcomeOfSize(1001), event_id: ids[8] }),
      JSON.stringify({ kind: 'outcome', body: outcomeText('1', ids[9]), event_id: ids[8] }),
      'x'.repeat(6 * 1000 + 4096 + 1),
      '[]',
      '\u0000',
      good,
    ];
    const input = Buffer.concat(lines.flatMap((line) => [Buffer.from(line as Buffer), Buffer.from('\n')]));
    const batches = await batchesOf([file(input)], { maxBodyBytes: 1000 });
    expect(bodiesOf(batches)).toEqual([good, good]);
    const held = true;
    const outcome = 'rejected';
    expect(refusalsOf(batches)).toEqual(
      [
        { line: 2, code: 'invalid_json', outcome, held },
        { line: 3, code: 'invalid_encoding', outcome, held },
        { line: 4, code: 'duplicate_key', outcome, held },
        { line: 5, code: 'nesting_too_deep', outcome, held },
        {
          ...{ line: 6, code: 'validation_failed', outcome, held, eventId: ids[5] },
          details: { issues: [{ pointer: '/outcome', rule: 'type', message: 'must be an object' }] },
        },
        {
          ...{ line: 7, code: 'validation_failed', outcome, held },
          details: { issues: [{ pointer: '/event_id', rule: 'format', message: 'must be a UUID' }] },
        },
        { line: 8, code: 'body_too_large', outcome, held, details: { bytes: 1001, limit: 1000 } },
        {
          line: 9,
          code: 'body_too_large',
          outcome,
          held,
          details: { bytes: 1001, limit: 1000 },
          eventId: ids[8],
        },
        {
          ...{ line: 10, code: 'wrapper_invalid', outcome, held, eventId: ids[8] },
          details: {
            issues: [{ pointer: '/event_id', rule: 'const', message: 'must be the event_id of the event' }],
          },
        },
        {
          ...{ line: 11, code: 'body_too_large', outcome, held: false },
          details: { bytes: 10_097, offset: input.indexOf('x'.repeat(5000)) },
        },
        { line: 12, code: 'validation_failed', outcome, held, details: expect.anything() as object },
        { line: 13, code: 'invalid_json', outcome, held },
      ].map((each) => expect.objectContaining(each) as unknown),
    );
    const texts = batches.flatMap(({ refusals }) => refusals.map(({ bytes }) => bytes && Buffer.from(bytes)));
    const expected = lines.slice(1, -1).map((line) => Buffer.from(line as Buffer));
    expect(texts.map((text, i) => text === undefined || text.equals(expected[i] ?? text))).toEqual(
      Array(12).fill(true),
    );
  });

  test('takes a last line that no line feed ends, and refuses one that was cut short', async () => {
    const [one, two] = [outcomeText('1'), outcomeText('2')];
    expect(bodiesOf(await batchesOf([file(`${one}\n${two}`)]))).toEqual([one, two]);
    const cut = await batchesOf([file(`${one}\n${two.slice(0, 40)}`)]);
    expect(bodiesOf(cut)).toEqual([one]);
    expect(refusalsOf(cut)).toMatchObject([{ line: 2, code: 'invalid_json' }]);
  });

  test('makes batches no larger than those of the ledger, each of one input', async () => {
    const texts = Array.from({ length: 2 * MAX_BATCH_EVENTS + 10 }, (_, i) => outcomeText(String(i)));
    const large = Array.from({ length: 9 }, () => outcomeOfSize(1 << 20));
    const first = file(texts.join('\n'), 'first');
    const batches = await batchesOf([first, file(large.join('\n'), 'second'), first]);
    expect(bodiesOf(batches)).toEqual([...texts, ...large, ...texts]);
    expect(batches.map(({ input }) => input)).toEqual(batches.map(({ input }) => input).toSorted());
    for (const batch of batches) {
      const events = eventsOf(batch);
      expect(events.length).toBeLessThanOrEqual(MAX_BATCH_EVENTS);
      const bytes = events.reduce((sum, { salted }) => sum + salted.length, 0);
      expect(bytes).toBeLessThanOrEqual(MAX_BATCH_BYTES);
    }
    const numbers = batches
      .filter(({ input }) => input === 2)
      .flatMap(eventsOf)
      .map(({ line }) => line);
    expect(numbers).toEqual(texts.map((_, i) => i + 1));
    const read = batches.map(({ bytesRead }) => bytesRead);
    expect(read).toEqual(read.toSorted((a, b) => a - b));
  });

  test('holds no more than a batch of faulty lines at a time', async () => {
    async function* faulty(): AsyncGenerator<Buffer, void> {
      for (let i = 0; i < 20; i++) yield await Promise.resolve(Buffer.from(`${'x'.repeat(1 << 20)}\n`));
    }
    for (const { refusals } of await batchesOf(['-'], {}, faulty())) {
      const bytes = refusals.reduce((sum, refusal) => sum + (refusal.bytes?.length ?? 0), 0);
      expect(bytes).toBeLessThan(MAX_BATCH_BYTES + (2 << 20));
    }
  });

  test('takes an event that is larger than a batch', async () => {
    const text = outcomeOfSize(9 << 20);
    const wrapped = JSON.stringify({ kind: 'outcome', body: text });
    const batches = await batchesOf([file(`${outcomeText('1')}\n${wrapped}\n${outcomeText('2')}\n`)], {
      maxBodyBytes: 10 << 20,
    });
    expect(bodiesOf(batches)[1] === text).toBe(true);
    expect(bodiesOf(batches)).toHaveLength(3);
  });

  test('stores nothing of a damaged compressed file and goes on with the next', async () => {
    const texts = Array.from({ length: 5000 }, (_, i) => outcomeText(String(i)));
    const damaged = file(zlib.gzipSync(texts.join('\n')).subarray(0, -4), 'damaged.gz');
    const batches = await batchesOf([damaged, file(outcomeText('1'))]);
    expect(batches.filter(({ input }) => input === 0).flatMap(eventsOf)).toEqual([]);
    expect(refusalsOf(batches)).toEqual([
      { line: 0, code: 'invalid_compression', outcome: 'rejected', held: false },
    ]);
    expect(bodiesOf(batches)).toHaveLength(1);
  });

  test('hands over what has come when the input pauses', async () => {
    const { promise: more, resolve: goOn } = Promise.withResolvers<undefined>();
    async function* slow(): AsyncGenerator<Buffer, void> {
      yield Buffer.from(`${outcomeText('1')}\n{`);
      await more;
      yield Buffer.from('}\n');
    }
    const settings = {
      inputs: ['-'],
      stated: { kind: 'outcome', organisation: undefined, profile: undefined },
    } as const;
    const batches = prepare(
      {
        ...settings,
        ...{ organisation: 'default', profile: 'minimum', maxBodyBytes: 1000, maxDepth: 64, zone: undefined },
      },
      slow(),
    );
    const first = await batches.next();
    expect(eventsOf(first.value as PreparedBatch)).toHaveLength(1);
    goOn(undefined);
    const second = await batches.next();
    expect(second.value).toMatchObject({ lines: 2, refusals: [{ line: 2, code: 'validation_failed' }] });
    expect((await batches.next()).done).toBe(true);
    await sleep(0);
  });

  test('fixes timestamps where that is asked for, and only those that need it', async () => {
    const [good, bad] = [outcomeText('1'), outcomeText('2').replace('07Z', '07')];
    const other = outcomeText('3').replace('07Z', '07').replace('"outcome":{}', '"outcome":1');
    const input = file([good, bad, other].join('\n'));
    expect(refusalsOf(await batchesOf([input]))).toHaveLength(2);
    const batches = await batchesOf([input], { zone: '+02:00' });
    expect(batches[0]).toMatchObject({ fixed: 1 });
    const [first, second] = bodiesOf(batches);
    expect(first).toBe(good);
    expect(JSON.parse(second ?? '')).toEqual({
      ...(JSON.parse(bad) as object),
      timestamp: '2026-03-04T05:06:07+02:00',
      import_fixes: [{ pointer: '/timestamp', original: '2026-03-04T05:06:07', zone: '+02:00' }],
    });
    // Were it refused later, the line as it was given would be told of.
    expect(batches.flatMap(eventsOf)[1]?.lineText.toString()).toBe(bad);
    const [refused] = refusalsOf(batches) as [{ details: { issues: { pointer: string }[] } }];
    expect(refused.details.issues.map(({ pointer }) => pointer)).toEqual(['/outcome']);
  });

  test('checks the sha256 of a wrapped line before its timestamps are fixed', async () => {
    const body = outcomeText('2').replace('07Z', '07');
    const line = JSON.stringify({ kind: 'outcome', sha256: '0'.repeat(64), body });
    expect(refusalsOf(await batchesOf([file(line)], { zone: 'Z' }))).toMatchObject([
      { code: 'sha256_mismatch' },
    ]);
  });

  test('refuses an event that becomes too large by its fix', async () => {
    const body = outcomeOfSize(1000).replace('07Z', '07');
    const batches = await batchesOf([file(body)], { zone: 'Europe/Berlin', maxBodyBytes: 1000 });
    expect(refusalsOf(batches)).toMatchObject([{ code: 'body_too_large' }]);
  });
});
