/** What `collector-spool` prints about a spool that it cannot read completely. Needs packages/client/dist. */
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { crc32 } from 'node:zlib';
import { drain } from '../../src/cli/drain.js';
import { Output } from '../../src/cli/output.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { fakeCollector } from '../running/fake-collector.js';
import { temporaryDirectory } from '../running/hurried-client.js';

const MAIN = path.resolve(import.meta.dirname, '../../dist/cli/main.js');
const EVENTS = 10;

async function command(args: readonly string[], url = 'http://127.0.0.1:9') {
  const env = { PATH: process.env['PATH'], COLLECTOR_URL: url, COLLECTOR_KEY: 'key' };
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, [MAIN, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
    });
  });
}

/** A spool with ten events, its one part and its segment. No process holds it unless it is left open. */
async function spoolWith({ close = true, key }: { close?: boolean; key?: Uint8Array } = {}) {
  const directory = temporaryDirectory();
  const spool = await openSpool({ directory, durability: 'os', ...(key && { key }) });
  for (let id = 0; id < EVENTS; id++) {
    await spool.append('outcome', Buffer.from(JSON.stringify({ event_id: `${id}` })));
  }
  const part = path.join(
    directory,
    fs.readdirSync(directory).find((name) => /^[0-9a-f]{26}$/.test(name)) ?? '',
  );
  if (close) await spool.close();
  const name = fs.readdirSync(part).find((file) => file.endsWith('.segment')) ?? '';
  return { directory, spool, part, segment: path.join(part, name) };
}

/** The size of each frame that `spoolWith` makes. */
const FRAME = 32 + '{"event_id":"0"}'.length;

function change(file: string, edit: (bytes: Buffer) => Buffer): void {
  fs.writeFileSync(file, edit(fs.readFileSync(file)));
}

interface Drained {
  readonly found: number | null;
  readonly sent: number;
  readonly waiting: number | null;
  readonly held_by_others: number;
  readonly not_taken: { path: string; waiting: number | null; why: string }[];
  readonly damaged: { bytes: number; missing_events: number; files: string[] };
}

async function drained(directory: string, ...more: readonly string[]) {
  const collector = await fakeCollector();
  const { code, stdout } = await command(['drain', directory, '--json', ...more], collector.url);
  return { code, json: JSON.parse(stdout) as Drained, accepted: collector.accepted.length };
}

test('[R-866] a segment of a later version is kept and named, and its events count as unknown', async () => {
  const { directory, segment } = await spoolWith();
  change(segment, (bytes) => {
    bytes[8] = 2;
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 60)), 60);
    return bytes;
  });
  const before = fs.readFileSync(segment);
  const { code, stdout } = await command(['drain', directory]);
  expect(code).toBe(7);
  expect(stdout).toContain('at least 0 still waiting');
  expect(stdout).toMatch(/NOT TAKEN: .*: an unknown number of events; .* was written by a later version/);
  const { code: again, json } = await drained(directory);
  expect(again).toBe(7);
  expect(json).toMatchObject({ found: null, sent: 0, waiting: null, not_taken: [{ waiting: null }] });
  const shown = await command(['show', directory]);
  expect(shown.stdout).toMatch(/cannot be counted/);
  expect(JSON.parse((await command(['show', directory, '--json'])).stdout)).toMatchObject({
    ...{ waiting: null, waiting_bytes: null, parts_not_counted: 1 },
  });
  const listed = await command(['show', directory, '--events']);
  expect(listed).toMatchObject({ code: 7, stdout: '' });
  expect(listed.stderr).toContain('later version');
  expect((await command(['show', directory, '--check'])).code).toBe(3);
  expect(fs.readFileSync(segment)).toEqual(before);
});

test('[R-854] a part left before a host restart is watched, named, and taken if unchanged', async () => {
  const { directory, spool, part } = await spoolWith({ close: false });
  // As after kill -9 and a restart: another boot, and no one listens.
  const left = `${directory}-left`;
  fs.cpSync(directory, left, { recursive: true, filter: (file) => !file.endsWith('lock') });
  await spool.close();
  const owner = path.join(part, 'owner').replace(directory, left);
  for (const boot of ['another-boot\n1\n', fs.readFileSync(owner, 'utf8')]) {
    fs.writeFileSync(owner, boot);
    const { code, json } = await drained(left, '--timeout', '1');
    expect(code).toBe(7);
    expect(json).toMatchObject({ sent: 0, waiting: EVENTS, held_by_others: 0 });
    expect(json.not_taken).toMatchObject([{ path: part.replace(directory, left), waiting: EVENTS }]);
  }
  const { stdout, stderr } = await command(['drain', left, '--timeout', '1']);
  expect(stdout).toMatch(/^0 events sent, 10 still waiting/);
  expect(stdout).toMatch(/NOT TAKEN: .*: 10 events; held by another host, or before a restart, last seen 20/);
  expect(stderr).toContain('adopted when unchanged for 3 minutes');
  const { url, accepted } = await fakeCollector();
  const output = new Output();
  const said = vi.spyOn(output, 'sayJson').mockResolvedValue();
  const [events, check, contents, json] = [false, false, false, true];
  const how = { events, check, contents, json, key: undefined, timeoutMs: undefined };
  expect(await drain({ directory: left, url, apiKey: 'key', ...how }, output, 1000)).toBe(0);
  expect(said.mock.calls).toMatchObject([[{ sent: EVENTS, waiting: 0, not_taken: [] }]]);
  expect(accepted).toHaveLength(EVENTS);
});

test('[R-853] damage that drain finds is in its result, and is reported until it is removed', async () => {
  const { directory, segment } = await spoolWith();
  change(segment, (bytes) => {
    const at = 64 + 3 * FRAME + 40;
    bytes[at] = (bytes[at] as number) ^ 1;
    return bytes;
  });
  const { code, json } = await drained(directory);
  expect(code).toBe(3);
  expect(json).toMatchObject({ sent: EVENTS - 1, waiting: 0, damaged: { bytes: FRAME, missing_events: 1 } });
  const [kept = ''] = json.damaged.files;
  expect(fs.readFileSync(kept)).toHaveLength(FRAME);
  const verified = await command(['show', directory, '--check']);
  expect(verified.code).toBe(3);
  expect(verified.stdout).toContain('events missing when their segment was read: 1');
  const shown = await command(['show', directory]);
  expect(shown.stdout).toContain(`${kept} (${FRAME} B of damaged data)`);
  expect(shown.stdout).toContain('.missing (1 event missing)');
  fs.rmSync(path.join(directory, 'damaged'), { recursive: true });
  expect((await command(['show', directory, '--check'])).code).toBe(0);
});

test.each(['with', 'without'])(
  '[R-853] frames cut out of a segment %s an end frame are reported as missing',
  async (how) => {
    const { directory, segment } = await spoolWith();
    change(segment, (bytes) => {
      const end = how === 'with' ? bytes.length : 64 + EVENTS * FRAME;
      return Buffer.concat([bytes.subarray(0, 64 + 4 * FRAME), bytes.subarray(64 + 9 * FRAME, end)]);
    });
    const { code, stdout } = await command(['show', directory, '--check']);
    expect(code).toBe(3);
    expect(stdout).toMatch(/5 of its events are missing/);
    const result = await drained(directory);
    expect(result.code).toBe(3);
    expect(result.json).toMatchObject({ sent: 5, waiting: 0, damaged: { bytes: 0, missing_events: 5 } });
    expect(JSON.parse((await command(['show', directory, '--json'])).stdout)).toMatchObject({
      damaged: [{ path: result.json.damaged.files[0], missing: 5 }],
    });
    expect((await command(['show', directory, '--check'])).code).toBe(3);
  },
);

test('[R-853] a damaged tail is found although no event follows it', async () => {
  const { directory, segment } = await spoolWith();
  change(segment, (bytes) =>
    Buffer.concat([bytes.subarray(0, 64 + EVENTS * FRAME), Buffer.alloc(20, 'torn')]),
  );
  const { code, json } = await drained(directory);
  expect(json).toMatchObject({ sent: EVENTS, damaged: { bytes: 20 } });
  expect(code).toBe(3);
});

test('[R-866] without the key, plain and sealed events of one part are counted together', async () => {
  const { directory, part } = await spoolWith();
  const sealed = await spoolWith({ key: Buffer.alloc(32, 4) });
  fs.cpSync(sealed.segment, path.join(part, path.basename(sealed.segment)));
  const { code, stdout } = await command(['show', directory]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^20 events wait/);
  expect(stdout).toContain('is encrypted');
});

test('[R-866] a segment that is no regular file, or too large, is named; the others are read', async () => {
  const { directory, part } = await spoolWith();
  const named = (digit: string) => path.join(part, `${digit.repeat(32)}.segment`);
  fs.mkdirSync(named('a'));
  execFileSync('mkfifo', [named('b')]);
  fs.symlinkSync('/dev/zero', named('c'));
  fs.writeFileSync(named('d'), '');
  fs.truncateSync(named('d'), 3 * 2 ** 30);
  for (const more of [[], ['--events'], ['--check']]) {
    const { stdout, stderr } = await command(['show', directory, ...more]);
    for (const digit of 'abc')
      expect(stdout + stderr).toMatch(new RegExp(`${digit}{32}\\.segment.*is not a regular file`));
    expect(stdout + stderr).toMatch(/d{32}\.segment.*is larger than a segment/);
  }
  const { code, json } = await drained(directory);
  expect(code).toBe(7);
  expect(json).toMatchObject({ sent: EVENTS, waiting: null });
  expect(json.not_taken[0]?.why).toContain('is not a regular file');
  expect(fs.readdirSync(part).filter((file) => file.endsWith('.segment'))).toHaveLength(4);
});

test('[R-866] quarantine or marks that are no regular files are reported and do not block show', async () => {
  const { directory, segment } = await spoolWith();
  fs.mkdirSync(path.join(directory, 'quarantine'));
  execFileSync('mkfifo', [path.join(directory, 'quarantine/x.ndjson')]);
  execFileSync('mkfifo', [segment.replace('.segment', '.done')]);
  const { code, stdout } = await command(['show', directory]);
  expect(code).toBe(0);
  expect(stdout).toContain('1 line there cannot be read');
  expect(stdout).toContain('cannot be read (EFTYPE)');
});

test.each(['damaged', 'quarantine'])(
  '[R-853] nothing is written through a link in place of %s',
  async (name) => {
    const { directory, segment } = await spoolWith();
    const outside = `${directory}-outside`;
    fs.mkdirSync(outside);
    fs.symlinkSync(outside, path.join(directory, name));
    if (name === 'damaged') {
      change(segment, (bytes) => bytes.fill(1, 64 + FRAME, 64 + 2 * FRAME));
      const { code, json } = await drained(directory);
      expect(code).toBe(3);
      expect(json.damaged).toMatchObject({ bytes: FRAME, files: [] });
      expect(json).toMatchObject({ sent: EVENTS - 1, waiting: 0 });
      // It is left until it can be put aside.
      const left = fs.readdirSync(directory, { recursive: true, encoding: 'utf8' });
      expect(left.filter((file) => file.endsWith('.segment'))).toHaveLength(1);
    } else {
      const spool = await openSpool({ directory, durability: 'os' });
      const [taken] = await spool.take(1, 1);
      if (!taken) throw new Error('nothing was given out');
      await expect(spool.quarantine(taken, { status: 400, at: '2026-01-01T00:00:00Z' })).rejects.toThrow(
        'quarantine',
      );
      await spool.close();
    }
    expect(fs.readdirSync(outside)).toEqual([]);
  },
);

test('[R-866] text that a server sends as a code is shown only with --contents', async () => {
  const { directory } = await spoolWith();
  const words = 'John Doe 1950-01-01 HIV positive';
  const spool = await openSpool({ directory, durability: 'os' });
  for (const taken of await spool.take(1, 1))
    await spool.quarantine(taken, { status: 400, code: words, at: '' });
  await spool.close();
  for (const more of [[], ['--json'], ['--events'], ['--events', '--json']]) {
    const { code, stdout } = await command(['show', directory, ...more]);
    expect(code).toBe(0);
    expect(stdout).toContain('an unknown code');
    expect(stdout).not.toContain('John');
  }
  expect((await command(['show', directory, '--events', '--contents'])).stdout).toContain(words);
});
