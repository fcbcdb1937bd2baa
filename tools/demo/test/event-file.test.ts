import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { DemoScript } from '../src/demo-script.js';
import { writeEvents, textOf } from '../src/event-file.js';
import type { SentEvent } from '../src/anomalies.js';
import { scratchDirectory } from '../../../packages/collector/test/access/scratch-keys.js';

const UNTIL = Date.parse('2026-11-20T16:00:00Z');
const NEVER = new AbortController().signal;

function script(runs: number): DemoScript {
  return new DemoScript({ seed: 'file', runs, period: { since: UNTIL - 30 * 86_400_000, until: UNTIL } });
}

test('[R-717] each line has the kind and the exact text of one sending', async () => {
  const file = scratchDirectory('events.ndjson');
  const written = await writeEvents(file, 'ward-7', script(1500).events(), NEVER);
  const expected = [...script(1500).events()];
  const text = fs.readFileSync(file, 'utf8');
  expect(written).toEqual({ lines: expected.length, bytes: Buffer.byteLength(text) });
  const lines = text.split('\n');
  expect(lines.pop()).toBe('');
  expect(lines).toHaveLength(expected.length);
  for (const [place, line] of lines.entries()) {
    const event = expected[place] as SentEvent;
    const { kind, body } = JSON.parse(line) as { kind: string; body?: string };
    expect(kind).toBe(event.planned.kind);
    // A text without line breaks is not encoded again.
    if (body === undefined)
      expect(line).toBe(`{"kind":"${kind}","organisation":"ward-7","event":${textOf(event)}}`);
    else expect(body).toBe(textOf(event));
  }
});

test('an existing file is not overwritten, and no temporary file is left', async () => {
  const directory = scratchDirectory();
  const file = path.join(directory, 'events.ndjson');
  fs.writeFileSync(file, 'mine');
  await expect(writeEvents(file, 'ward-7', script(5).events(), NEVER)).rejects.toThrow('EEXIST');
  expect(fs.readdirSync(directory)).toEqual(['events.ndjson']);
  expect(fs.readFileSync(file, 'utf8')).toBe('mine');
});

test('no file is left when writing stops or fails', async () => {
  const directory = scratchDirectory();
  const file = path.join(directory, 'events.ndjson');
  const stop = new AbortController();
  function* stopping() {
    let count = 0;
    for (const event of script(2000).events()) {
      if (++count === 100) stop.abort();
      yield event;
    }
  }
  expect(await writeEvents(file, 'ward-7', stopping(), stop.signal)).toBeUndefined();
  function* failing() {
    yield* script(3).events();
    throw new Error('no more');
  }
  await expect(writeEvents(file, 'ward-7', failing(), NEVER)).rejects.toThrow('no more');
  expect(fs.readdirSync(directory)).toEqual([]);
});
