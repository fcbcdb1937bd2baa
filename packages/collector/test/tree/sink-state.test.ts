import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type SinkState,
  StateFileDamaged,
  describe as described,
  readSinkStates,
  writeSinkStates,
} from '../../src/tree/state-files.js';
import { scratchDirectory } from './sample-log.js';

const AT = '2026-01-01T00:00:00.000Z';
const NOW = Date.parse(AT) + 90_000;
const OK: SinkState = { sink: 'dir:/mnt/worm', state: 'ok', size: 1234, at: AT, dropped: 0 };
const FAILING: SinkState = {
  ...{ sink: 'https://w.example (w1)', state: 'failing' },
  ...{ failing_since: AT, message: 'answers with 503' },
};
const FORKED: SinkState = {
  ...OK,
  state: 'forked',
  failing_since: AT,
  message: 'has seen more',
  dropped: 34,
};

function damaged(content: string): Error {
  const dataDir = scratchDirectory();
  fs.mkdirSync(path.join(dataDir, 'checkpoints'));
  fs.writeFileSync(path.join(dataDir, 'checkpoints', 'sinks.json'), content);
  try {
    readSinkStates(dataDir);
  } catch (error) {
    if (error instanceof StateFileDamaged) return error;
  }
  throw new Error(`${content} is not refused`);
}

describe('the states of the sinks', () => {
  test('are read as they were written, and readable only by their owner', () => {
    const dataDir = scratchDirectory();
    expect(readSinkStates(dataDir)).toEqual([]);
    for (const states of [[OK, FAILING, FORKED], [OK], []]) {
      writeSinkStates(dataDir, states);
      expect(readSinkStates(dataDir)).toEqual(states);
    }
    const file = path.join(dataDir, 'checkpoints', 'sinks.json');
    expect(fs.statSync(file).mode & 0o777).toBe(0o600);
    expect(fs.readdirSync(path.dirname(file))).toEqual(['sinks.json']);
  });

  test('are refused when they are rubbish, and the message names the file', () => {
    for (const content of ['', '{', '\0'])
      expect(damaged(content).message).toMatch(/sinks\.json is not JSON$/);
    const message = /sinks\.json does not hold the states of checkpoint sinks$/;
    for (const content of ['{}', 'null', '[null]', '["ok"]', '[{}]'])
      expect(damaged(content).message).toMatch(message);
    for (const wrong of [
      { sink: 1 },
      { sink: 'a\u001b[2Jb' },
      { state: 'fine' },
      { size: -1 },
      { size: 1.5 },
      { at: 'yesterday' },
      { at: 5 },
      { failing_since: '2026-13-01T00:00:00Z' },
      { message: 'a\nb' },
      { dropped: '3' },
    ]) {
      expect(damaged(JSON.stringify([{ ...OK, ...wrong }])).message).toMatch(message);
    }
    expect(damaged(' '.repeat(2 << 20)).message).toContain('too large');
  });

  test('[R-906] are described in one line each', () => {
    expect(
      [OK, FAILING, FORKED, { ...OK, size: 1, dropped: 3 }].map((state) => described(state, NOW)),
    ).toEqual([
      'dir:/mnt/worm takes checkpoints; the last one covers 1234 entries, 1 min ago',
      'https://w.example (w1) takes no checkpoints since 2026-01-01T00:00:00.000Z (1 min): answers with 503; it has taken none from this directory',
      'dir:/mnt/worm contradicts this ledger since 2026-01-01T00:00:00.000Z (1 min): has seen more; ' +
        'the last one covers 1234 entries, 1 min ago',
      'dir:/mnt/worm takes checkpoints; the last one covers 1 entry, 1 min ago; ' +
        '3 were dropped, and the newest covers them',
    ]);
    const hours = [0, -5000, 999, 59_999, 3_600_000, 49 * 3_600_000];
    expect(hours.map((ms) => / (\d+ \w+) ago$/.exec(described(OK, Date.parse(AT) + ms))?.[1])).toEqual([
      ...['0 s', '0 s', '0 s', '59 s', '1 h', '2 d'],
    ]);
  });
});
