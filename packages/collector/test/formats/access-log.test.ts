/**
 * The frozen format of the access log (docs/internals/formats.md): an example over a change of year is
 * committed in `access-log`. To write it again after an intended change of version: `WRITE_VECTORS=1`.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessLines } from '../../src/commands/access-lines.js';
import { AccessLogCheck } from '../../src/commands/verify/access-log-check.js';
import { openAccessLog } from '../../src/store/open-access-log.js';

const COMMITTED = path.join(import.meta.dirname, 'access-log');
const PRELOAD = path.join(import.meta.dirname, '../../../../test/net/preload.mjs');
const FILES = ['access-2027.log', 'access.log', 'heads.ndjson'];
const PYTHON = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']).status === 0;
if (!PYTHON)
  console.log('skipped: there is no python3 of version 3.10 or newer, which decodes the access log');

let root: string;
let made: string;

beforeAll(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-access-log-'));
  made = path.join(root, 'made');
  fs.mkdirSync(made);
  const clock = path.join(root, 'clock');
  fs.writeFileSync(clock, '0');
  const maker = path.join(import.meta.dirname, 'make-access-log.mjs');
  const env = { PATH: process.env['PATH'], NET_CLOCK: clock, NET_SEED: 'access log' };
  const { status, stderr } = spawnSync(process.execPath, ['--import', PRELOAD, maker, made], { env });
  expect(status, String(stderr)).toBe(0);
  if (process.env['WRITE_VECTORS'] !== undefined) fs.cpSync(made, COMMITTED, { recursive: true });
});
afterAll(() => fs.rmSync(root, { recursive: true, force: true }));

const bodies = (directory: string) =>
  fs.readFileSync(path.join(directory, 'heads.ndjson'), 'utf8').trimEnd().split('\n');

function decode(directory: string): { status: number | null; stdout: string; stderr: string } {
  const decoder = path.join(import.meta.dirname, 'access_log.py');
  return spawnSync('python3', ['-B', decoder, directory], { encoding: 'utf8' });
}

async function check(directory: string, heads = bodies(directory)) {
  const accessLog = new AccessLogCheck(openAccessLog(directory));
  for (const [i, body] of heads.entries()) accessLog.head(i + 1, Buffer.from(body));
  return accessLog.finish();
}

describe('[R-2055] the committed access log', () => {
  test('is written again as it is committed', () => {
    expect(fs.readdirSync(made).sort()).toEqual(FILES);
    for (const file of FILES)
      expect(fs.readFileSync(path.join(made, file), 'utf8'), file).toBe(
        fs.readFileSync(path.join(COMMITTED, file), 'utf8'),
      );
  });

  test('is read and checked by the collector', async () => {
    expect(await check(COMMITTED)).toMatchObject({
      ...{ lines: 5, covered: 5, heads: 3, unended: 1, torn: 0, unchecked: [], findings: [] },
    });
  });

  test('is not checked by a head of another version', async () => {
    const later = bodies(COMMITTED).map((body) => body.replace('/v1"', '/v2"'));
    const { covered, heads, findings = [] } = (await check(COMMITTED, later)) ?? {};
    expect([covered, heads]).toEqual([0, 0]);
    const message = expect.stringContaining('is an access-log head of an unknown version') as string;
    expect(findings).toEqual(
      [1, 2, 3].map((sequence) => ({ kind: 'unreadable', sequence, file: 'access.log', message })),
    );
  });

  test('is read alike by a decoder that was written from the page alone', async () => {
    if (!PYTHON) return;
    const lines: unknown[] = [];
    for await (const line of accessLines(COMMITTED)) lines.push(line);
    const { status, stdout, stderr } = decode(COMMITTED);
    expect(status, stderr).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      'access.log': { lines: lines.slice(0, 3), covered: 3, closed: true },
      'access-2027.log': { lines: lines.slice(3), covered: 2, closed: false },
    });
  });

  test.each<[string, string, string, string]>([
    ['a changed line', 'access-2027.log', '"events":214', '"events":215'],
    ['a lost line', 'access.log', '\n{"at":"2026-12-31', '{"at":"2026-12-31'],
    ['another version', 'heads.ndjson', 'head/v1', 'head/v2'],
    ['a moved member', 'heads.ndjson', '"file":"access.log","lines":3', '"lines":3,"file":"access.log"'],
  ])('is refused by this decoder with %s', (_what, file, from, to) => {
    if (!PYTHON) return;
    const copy = fs.mkdtempSync(path.join(root, 'changed-'));
    fs.cpSync(COMMITTED, copy, { recursive: true });
    const text = fs.readFileSync(path.join(copy, file), 'utf8');
    expect(text).toContain(from);
    fs.writeFileSync(path.join(copy, file), text.replace(from, to));
    expect(decode(copy).stderr).toContain('Damaged');
  });
});
