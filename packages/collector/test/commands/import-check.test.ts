import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { launch, run, temporaryDirectory } from '../running/collector-process.js';
import { outcomeOfSize, outcomeText, sampleEvent } from '../running/sample-events.js';

let scratch: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

function file(lines: readonly string[]): string {
  const made = path.join(scratch, 'events.ndjson');
  fs.writeFileSync(made, lines.map((line) => `${line}\n`).join(''));
  return made;
}

describe('collector import --check [R-714]', () => {
  test('counts valid events, reports every fault without its value, and leaves no file', async () => {
    const sparse = outcomeText('"MRN 4711"');
    const input = file([
      sparse,
      '',
      '{"wxyz"',
      sparse.replace('2026-03-04T05:06:07Z', 'MRN wxyz'),
      sparse.slice(1),
    ]);
    const words = ['import', '--check', input, '--kind', 'outcome'];
    const { code, stdout, stderr } = await run(words);
    expect([code, stderr]).toEqual([1, '']);
    expect(stdout).toContain('5 lines of 1 file read: 1 event valid under profile minimum, 3 refused.\n');
    expect(stdout).toContain(`${input}:3: invalid_json: `);
    expect(stdout).toContain(`${input}:4: validation_failed: /timestamp `);
    expect(stdout).toContain(`${input}:5: invalid_json: `);
    expect(stdout).not.toContain('wxyz');
    const json = await run([...words, '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      ...{ profile: 'minimum', lines: 5, empty: 1, passed: 1, refused: 3, rejects: null },
      refused_by_code: { invalid_json: 2, validation_failed: 1 },
    });
    expect(fs.readdirSync(scratch)).toEqual(['events.ndjson']);
  });

  test('applies the profile and the limits of a collector with the same settings', async () => {
    const whole = JSON.stringify({ kind: 'outcome', organisation: 'any', event: sampleEvent('outcome') });
    const sparse = JSON.stringify({ kind: 'outcome', profile: 'minimum', body: outcomeText('1') });
    const input = file([whole, sparse]);
    expect((await run(['import', '--check', input])).code).toBe(0);
    const full = await run(['import', '--check', input, '--profile', 'full']);
    expect(full.code).toBe(1);
    expect(full.stdout).toContain('1 event valid under profile full, 1 refused.');
    const env = { COLLECTOR_PROFILE: 'full' };
    expect((await run(['import', '--check', input], { env })).code).toBe(1);
    const large = file([outcomeOfSize(3000)]);
    const limits = ['--kind', 'outcome', '--max-body-bytes'];
    expect((await run(['import', '--check', large, ...limits, '3000'])).code).toBe(0);
    expect((await run(['import', '--check', large, ...limits, '2999'])).stdout).toContain(
      ':1: body_too_large\n',
    );
  });

  test('needs no key, reads no store, and its settings are refused without --check', async () => {
    const input = file([outcomeText('1')]);
    const words = ['import', input, '--kind', 'outcome'];
    const unread = [...words, '--check', '--key', '@none', '--url', 'http://127.0.0.1:1'];
    for (const COLLECTOR_STORE of ['postgres://collector@localhost/log', 'redis://localhost'])
      expect((await run(unread, { env: { COLLECTOR_STORE } })).code, COLLECTOR_STORE).toBe(0);
    const { code, stderr } = await run([...words, '--profile', 'full']);
    expect(code).toBe(2);
    expect(stderr).toContain('--profile: requires --check');
    const other = file([JSON.stringify({ kind: 'outcome', organisation: 'ward-7', body: outcomeText('1') })]);
    expect((await run(['import', other, '--check'])).code).toBe(0);
    expect((await run(['import', other, '--check', '--organisation', 'ward-8'])).code).toBe(1);
  });

  test('reads standard input, and fixes timestamps as an import would', async () => {
    const text = outcomeText('1').replace('05:06:07Z', '05:06:07');
    for (const [args, code] of [
      [[], 1],
      [['--fix', 'timestamps=Europe/Berlin'], 0],
    ] as const) {
      const checking = launch(['import', '--check', '-', '--kind', 'outcome', ...args]);
      checking.process.stdin?.end(text);
      expect(await checking.exited).toBe(code);
    }
  });
});
