import { execFileSync } from 'node:child_process';
import { hash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import zlib from 'node:zlib';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  launch,
  run,
  start,
  storedEvents,
  temporaryDirectory,
  type PrintedEvent,
} from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { post } from '../running/load.js';
import { hasTerminal, runOnTerminal } from '../running/restricted-process.js';
import { outcomeOfSize, outcomeText, sampleEvent } from '../running/sample-events.js';
import { flipBit, segmentPaths } from '../store/embedded/filled-directory.js';

let scratch: string;
let dataDir: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  dataDir = path.join(scratch, 'data');
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

/** A file of lines, each ended by a line feed. */
function file(lines: readonly string[], name = 'events.ndjson'): string {
  const made = path.join(scratch, name);
  fs.writeFileSync(made, lines.map((line) => `${line}\n`).join(''));
  return made;
}

function importFiles(...args: readonly string[]) {
  return run(['import', '--data-dir', dataDir, ...args]);
}

interface Told {
  readonly complete: boolean;
  readonly lines: number;
  readonly stored: number;
  readonly repeats: number;
  readonly refused: number;
  readonly refused_by_code: Readonly<Record<string, number>>;
  readonly rejects: string | null;
  readonly files: readonly Readonly<Record<string, unknown>>[];
}

/** Imports, and reads what is told of it. */
async function told(...args: readonly string[]): Promise<Told & { code: number | null }> {
  const { code, stdout, stderr } = await importFiles(...args, '--json');
  if (stdout === '') throw new Error(`exit code ${code}: ${stderr}`);
  return { code, ...(JSON.parse(stdout) as Told) };
}

function rejectsIn(name: string): Record<string, unknown>[] {
  const lines = fs.readFileSync(name, 'utf8').split('\n');
  expect(lines.pop()).toBe('');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** The readings that are noted, without what differs from run to run. */
function noted(): Record<string, unknown>[] {
  const lines = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** All that must survive: in order of storing. */
function essence({ kind, organisation, event_id, run_id, sha256, body, ...more }: PrintedEvent): unknown {
  return {
    kind,
    organisation,
    event_id,
    run_id,
    sha256,
    body,
    profile: (more as { profile?: string }).profile,
  };
}

async function expectWhole(directory: string): Promise<void> {
  for (const command of ['doctor', 'verify']) {
    const { code, stdout, stderr } = await run([command, '--data-dir', directory]);
    expect(code, `${command}: ${stdout}${stderr}`).toBe(0);
  }
}

/** A file in the directory, its size and its contents, by name. */
function contentsOf(directory: string): Map<string, string> {
  const entries = fs.readdirSync(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  return new Map(files.map((name) => [name, hash('sha256', fs.readFileSync(name), 'hex')]));
}

function outcomes(count: number): string[] {
  return Array.from({ length: count }, (_, i) => outcomeText(String(i)));
}

describe('collector import [R-714]', () => {
  test('takes over the events of another data directory as they were, and the proof of them holds', async () => {
    const source = path.join(scratch, 'source');
    fs.mkdirSync(source, { mode: 0o700 });
    const [plain, ward] = [
      await issueKey(source),
      await issueKey(source, { organisation: 'ward', profile: 'full' }),
    ];
    const collector = await start(source, ['--segment-bytes', '2MiB']);
    onTestFinished(() => collector.kill());
    const send = async (key: string, kind: EventKind, body: string) => {
      expect((await post(collector.port, key, body, { kind })).status).toBe(201);
    };
    const id = randomUUID();
    for (const kind of EVENT_KINDS) {
      await send(plain.text, kind, JSON.stringify(sampleEvent(kind)));
      await send(ward.text, kind, JSON.stringify(sampleEvent(kind, { run_id: id }), undefined, '\t'));
    }
    // One id in two organisations; and what a reader must not turn into something else.
    for (const { text } of [plain, ward]) {
      const odd = outcomeText('[1.0, 12345678901234567890, 1e400, "\\u00e9é\u2028\u007f\\/"]', id);
      await send(
        text,
        'outcome',
        ` ${odd.replace('"outcome":{}', '"outcome":{"outcome_type":"validated"}')}\r\n`,
      );
    }
    expect(await collector.stop()).toBe(0);

    const { stdout } = await run(['events', '--data-dir', source]);
    const lines = stdout.split('\n').slice(0, -1);
    const before = Date.now();
    const { code, ...result } = await told(file(lines));
    expect({ code, ...result }).toMatchObject({
      ...{ code: 0, complete: true, lines: 12, stored: 12, repeats: 0, refused: 0, rejects: null },
      files: [{ bytes: Buffer.byteLength(stdout), sha256: hash('sha256', stdout, 'hex') }],
    });
    const imported = await storedEvents(dataDir);
    expect(imported.map(essence)).toEqual((await storedEvents(source)).map(essence));
    for (const event of imported) {
      expect(event).toMatchObject({ key_id: 'import000000' });
      expect(Date.parse(event.received_at)).toBeGreaterThanOrEqual(before);
    }
    await expectWhole(dataDir);
    expect(fs.readdirSync(scratch).toSorted()).toEqual(['data', 'events.ndjson', 'source']);

    // In any packing, and from a pipe: all of it is there.
    fs.writeFileSync(path.join(scratch, 'events.zst'), zlib.zstdCompressSync(stdout));
    fs.writeFileSync(path.join(scratch, 'events.gz'), zlib.gzipSync(stdout));
    fs.writeFileSync(path.join(scratch, 'events.br'), zlib.brotliCompressSync(stdout));
    const packed = ['events.zst', 'events.gz', 'events.br'].map((name) => path.join(scratch, name));
    expect(await told(...packed)).toMatchObject({ code: 0, stored: 0, repeats: 36 });
    const piped = launch(['import', '--data-dir', dataDir, '-', '--json']);
    piped.process.stdin?.end(stdout);
    expect(await piped.exited).toBe(0);
    expect(JSON.parse(piped.output.stdout)).toMatchObject({ stored: 0, repeats: 12, files: [{ file: '-' }] });
    expect(await storedEvents(dataDir)).toHaveLength(12);
  });

  test('takes events without wrappers, for the kind and the organisation that are stated', async () => {
    const [one, two] = [outcomeText('1'), outcomeText('2')];
    const input = file([`${one}\r`, '', '  ', two]);
    expect(await told(input, '--kind', 'outcome', '--organisation', 'icu')).toMatchObject({
      code: 0,
      lines: 4,
      stored: 2,
    });
    expect(await storedEvents(dataDir)).toMatchObject([
      { kind: 'outcome', organisation: 'icu', body: one },
      { kind: 'outcome', organisation: 'icu', body: two },
    ]);
  });

  test('refuses faulty lines and stores all others; the reject file has what it takes to mend and import them', async () => {
    const [good, known] = [outcomeText('1'), outcomeText('"before"')];
    expect((await told(file([known], 'known'), '--kind', 'outcome')).code).toBe(0);
    const faulty = outcomeText('"MRN 4711"').replace('"outcome":{}', '"outcome":"MRN 4711"');
    const lines = [good, faulty, known, known.replace('before', 'MRN 4711'), 'MRN 4711', good.slice(0, 50)];
    const input = file(lines);
    fs.appendFileSync(input, Buffer.from([0x7b, 0xff, 0x0a]));
    const { code, stdout, stderr } = await importFiles(input, '--kind', 'outcome');
    expect(code).toBe(7);
    expect(stdout).toContain(
      '7 lines of 1 file read: 1 event stored, 1 stored before, 5 refused.\n' +
        `Refused: 1 validation_failed, 1 event_id_conflict, 2 invalid_json, 1 invalid_encoding; see ${input}.rejects.ndjson.`,
    );
    expect(stdout + stderr).not.toContain('4711');
    const rejects = rejectsIn(`${input}.rejects.ndjson`);
    expect(fs.statSync(`${input}.rejects.ndjson`).mode & 0o777).toBe(0o600);
    const idOf = (text: string) => (JSON.parse(text) as { event_id: string }).event_id;
    expect(rejects).toMatchObject([
      {
        file: input,
        line: 2,
        code: 'validation_failed',
        event_id: idOf(faulty),
        outcome: 'rejected',
        text: faulty,
      },
      { line: 4, code: 'event_id_conflict', event_id: idOf(known), outcome: 'conflict', text: lines[3] },
      { line: 5, code: 'invalid_json', outcome: 'rejected', text: 'MRN 4711' },
      { line: 6, code: 'invalid_json', outcome: 'rejected', text: lines[5] },
      { line: 7, code: 'invalid_encoding', outcome: 'rejected', text_base64: 'e/8=' },
    ]);
    expect(rejects[0]).toMatchObject({ details: { issues: [{ pointer: '/outcome', rule: 'type' }] } });
    // Only the text of a line may hold anything of it.
    for (const reject of rejects) expect(JSON.stringify({ ...reject, text: '' })).not.toContain('4711');

    // The file is not written over, until it is out of the way.
    const again = await importFiles(input, '--kind', 'outcome');
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toContain('--rejects');
    const mended = file(
      [String(rejects[0]?.['text']).replace('"outcome":"MRN 4711"', '"outcome":{}')],
      'mended',
    );
    expect(await told(mended, '--kind', 'outcome')).toMatchObject({ code: 0, stored: 1 });
    expect((await storedEvents(dataDir)).map(({ body }) => body)).toContain(known);
    expect(await storedEvents(dataDir)).toHaveLength(3);
  });

  test('does not hold a line in memory that is larger than any event', async () => {
    const {
      process: child,
      exited,
      output,
    } = launch([
      'import',
      '--data-dir',
      dataDir,
      '-',
      '--kind',
      'outcome',
      '--json',
      '--rejects',
      path.join(scratch, 'rejects'),
    ]);
    const stdin = child.stdin;
    if (stdin === null) throw new Error('no standard input');
    const write = async (piece: string | Buffer) => {
      if (!stdin.write(piece)) await new Promise((resolve) => stdin.once('drain', resolve));
    };
    const [first, last] = [outcomeText('1'), outcomeText('2')];
    await write(`${first}\n`);
    const megabyte = Buffer.alloc(1 << 20, 'x');
    for (let i = 0; i < 320; i++) await write(megabyte);
    const peak = /VmHWM:\s+(\d+) kB/.exec(fs.readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1];
    expect(Number(peak) / 1024).toBeLessThan(256);
    stdin.end(`\n${outcomeOfSize(65 << 20)}\n${last}\n`);
    expect(await exited).toBe(7);
    expect(JSON.parse(output.stdout)).toMatchObject({ stored: 2, refused_by_code: { body_too_large: 2 } });
    expect(rejectsIn(path.join(scratch, 'rejects'))).toEqual([
      {
        ...{ file: '-', line: 2, code: 'body_too_large', outcome: 'rejected' },
        details: { bytes: 320 << 20, offset: first.length + 1 },
      },
      {
        ...{ file: '-', line: 3, code: 'body_too_large', outcome: 'rejected' },
        details: { bytes: 65 << 20, offset: first.length + 2 + (320 << 20) },
      },
    ]);
    expect((await storedEvents(dataDir)).map(({ body }) => body)).toEqual([first, last]);
  });

  test('stores nothing of a damaged compressed file, and the other files', async () => {
    const damaged = path.join(scratch, 'damaged.gz');
    fs.writeFileSync(damaged, zlib.gzipSync(outcomes(2000).join('\n')).subarray(0, -1));
    const result = await told(damaged, file(outcomes(2)), '--kind', 'outcome');
    expect(result).toMatchObject({ code: 7, stored: 2, refused_by_code: { invalid_compression: 1 } });
    expect(rejectsIn(`${damaged}.rejects.ndjson`)).toEqual([
      { file: damaged, line: 0, code: 'invalid_compression', outcome: 'rejected' },
    ]);
  });

  test('leaves a directory alone on which a collector runs, and one is kept out while it imports', async () => {
    const key = await issueKey(dataDir);
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    expect((await post(collector.port, key.text, outcomeText('1'))).status).toBe(201);
    const refused = await importFiles(file(outcomes(1)), '--kind', 'outcome');
    expect(refused).toMatchObject({ code: 5, stdout: '' });
    expect(refused.stderr).toMatch(
      /^collector: .* in use by another collector: stop that one first, or .* HTTP\n$/,
    );
    expect(fs.readdirSync(scratch)).not.toContain('events.ndjson.rejects.ndjson');
    expect(await storedEvents(dataDir)).toHaveLength(1);
    expect(await collector.stop()).toBe(0);

    const importing = launch(['import', '--data-dir', dataDir, '-', '--kind', 'outcome']);
    onTestFinished(() => void importing.process.kill('SIGKILL'));
    importing.process.stdin?.write(`${outcomeText('2')}\n`);
    await expect.poll(() => storedEvents(dataDir)).toHaveLength(2);
    await expect(start(dataDir)).rejects.toThrow('in use by another collector');
    importing.process.stdin?.end();
    expect(await importing.exited).toBe(0);
    await expectWhole(dataDir);
  });

  test('examines in a dry run, beside a collector too, and changes nothing', async () => {
    const input = file([...outcomes(3), '{', outcomeText('1').slice(1)]);
    const nothing = await importFiles(input, '--kind', 'outcome', '--dry-run');
    expect(nothing.code).toBe(7);
    expect(nothing.stdout).toContain(
      '5 lines of 1 file read: 3 events could be stored, 2 refused.\nNothing was stored',
    );
    expect(fs.readdirSync(scratch)).toEqual(['events.ndjson']);

    const [known] = outcomes(1);
    expect((await told(file([known ?? ''], 'known'), '--kind', 'outcome')).code).toBe(0);
    const before = contentsOf(dataDir);
    const rejects = path.join(scratch, 'faults');
    const dry = await told(
      input,
      path.join(scratch, 'known'),
      '--kind',
      'outcome',
      '--dry-run',
      '--rejects',
      rejects,
    );
    expect(dry).toMatchObject({ code: 7, passed: 4, repeats: 0, refused: 2, rejects });
    expect(dry).not.toHaveProperty('stored');
    expect(rejectsIn(rejects)).toMatchObject([{ line: 4, text: '{' }, { line: 5 }]);
    expect(contentsOf(dataDir)).toEqual(before);

    await issueKey(dataDir);
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    expect((await told(input, '--kind', 'outcome', '--dry-run')).code).toBe(7);
    await collector.stop();
  });

  test('gives timestamps the offset of a zone where that is asked for, and says so in the event', async () => {
    const [good, summer, twice] = [outcomeText('1'), outcomeText('2'), outcomeText('3')];
    const lines = [
      good,
      summer.replace('2026-03-04T05:06:07Z', '2026-07-01 10:00:00.250'),
      twice.replace('2026-03-04T05:06:07Z', '2026-10-25T02:30:00'),
    ];
    const input = file(lines);
    expect((await told(input, '--kind', 'outcome', '--dry-run')).refused).toBe(2);
    const fixing = [input, '--kind', 'outcome', '--fix', 'timestamps=Europe/Berlin'];
    expect(await told(...fixing)).toMatchObject({ code: 0, stored: 3, fixed: 2 });
    const stored = (await storedEvents(dataDir)).map(({ body }) => body);
    expect(stored[0]).toBe(good);
    expect(stored.slice(1).map((body) => JSON.parse(body) as unknown)).toMatchObject([
      {
        timestamp: '2026-07-01T10:00:00.250+02:00',
        import_fixes: [{ pointer: '/timestamp', original: '2026-07-01 10:00:00.250', zone: 'Europe/Berlin' }],
      },
      { timestamp: '2026-10-25T02:30:00+02:00', import_fixes: [{ clock_change: 'overlap' }] },
    ]);
    // The same again is the same again; in another zone it is another event.
    expect(await told(...fixing)).toMatchObject({ code: 0, stored: 0, repeats: 3 });
    const elsewhere = await told(input, '--kind', 'outcome', '--fix', 'timestamps=+00:00');
    expect(elsewhere).toMatchObject({ code: 7, repeats: 1, refused_by_code: { event_id_conflict: 2 } });
    expect(rejectsIn(`${input}.rejects.ndjson`)[0]).toMatchObject({ outcome: 'conflict', text: lines[1] });
  });

  test('examines by the profile that is stated, or else by that of the line, or else by the collector’s own', async () => {
    const sparse = outcomeText('1');
    const line = (profile: string) => JSON.stringify({ kind: 'outcome', profile, body: sparse });
    const refusedOf = async (lines: string[], ...args: string[]) =>
      (await told(file(lines), '--kind', 'outcome', '--dry-run', ...args)).refused;
    expect(await refusedOf([sparse, line('minimum'), line('full')])).toBe(1);
    expect(await refusedOf([sparse, line('minimum'), line('full')], '--profile', 'full')).toBe(3);
    expect(await refusedOf([line('full')], '--profile', 'minimum')).toBe(0);
    const env = { COLLECTOR_PROFILE: 'full' };
    const own = await run(
      ['import', file([sparse, line('minimum')]), '--kind', 'outcome', '--dry-run', '--json'],
      { env },
    );
    expect(JSON.parse(own.stdout)).toMatchObject({ refused: 1, passed: 1 });
  });

  test('[R-716] is noted in the access log before it begins and at its end, with what became of each file', async () => {
    const lines = [...outcomes(2), '{'];
    const input = file([...lines, lines[0] ?? '']);
    expect((await told(input, '--kind', 'outcome', '--organisation', 'icu')).code).toBe(7);
    expect(noted()).toMatchObject([
      {
        ...{ state: 'begun', command: 'import' },
        filter: { files: [input], kind: 'outcome', organisation: 'icu', rejects: `${input}.rejects.ndjson` },
      },
      {
        ...{ state: 'ended', command: 'import', events: 2, complete: true },
        files: [
          {
            ...{ file: input, lines: 4, stored: 2, repeats: 1, refused: 1 },
            ...{ bytes: fs.statSync(input).size, sha256: hash('sha256', fs.readFileSync(input)) },
          },
        ],
      },
    ]);
    // The end is under a head as well.
    const verified = await run(['verify', '--json', '--data-dir', dataDir]);
    const { access_log: log } = JSON.parse(verified.stdout) as { access_log: object };
    expect(log).toMatchObject({ lines: 2, unsigned_lines: 0, heads: 1 });
  });

  test('[R-716] of more than a thousand files is noted with one hash over those that are not listed', async () => {
    const inputs = Array.from({ length: 1002 }, (_, i) => {
      const input = path.join(scratch, `${i}.ndjson`);
      fs.writeFileSync(input, i < 1000 ? '' : '{');
      return input;
    });
    const { stdout } = await importFiles(...inputs, '--kind', 'outcome', '--json');
    const { files } = JSON.parse(stdout) as { files: readonly object[] };
    const lines = (items: readonly unknown[]) => items.map((item) => `${JSON.stringify(item)}\n`).join('');
    const names = hash('sha256', lines(inputs.slice(1000)));
    const sums = { count: 2, lines: 2, stored: 0, repeats: 0, refused: 2 };
    expect(noted()).toMatchObject([
      { state: 'begun', filter: { files: inputs.slice(0, 1000), more_files: { count: 2, sha256: names } } },
      {
        ...{ state: 'ended', files: files.slice(0, 1000) },
        more_files: { ...sums, sha256: hash('sha256', lines(files.slice(1000))) },
      },
    ]);
  });

  test('is not begun where its rejects would go through a link', async () => {
    const rejects = path.join(scratch, 'linked');
    fs.symlinkSync(path.join(scratch, 'elsewhere'), rejects);
    const { code, stderr } = await importFiles(file(outcomes(1)), '--kind', 'outcome', '--rejects', rejects);
    expect([code, stderr]).toEqual([
      2,
      `collector: ${rejects} is a link, and was not followed. Name another by --rejects\n`,
    ]);
    expect(fs.readdirSync(scratch)).not.toContain('elsewhere');
    expect(fs.existsSync(path.join(dataDir, 'ledger'))).toBe(false);
  });

  test('is not begun where it cannot be noted', async () => {
    fs.mkdirSync(path.join(dataDir, 'access.log'), { recursive: true, mode: 0o700 });
    const { code, stderr } = await importFiles(file(outcomes(1)), '--kind', 'outcome');
    expect(code).toBe(1);
    expect(stderr).toContain('access.log');
    expect(fs.existsSync(path.join(dataDir, 'ledger'))).toBe(false);
    expect(fs.readdirSync(scratch)).not.toContain('events.ndjson.rejects.ndjson');
  });

  test('stops after the batch when it is interrupted, tells how far it came, and goes on when it is run again', async () => {
    const lines = outcomes(10);
    const importing = launch(['import', '--data-dir', dataDir, '-', '--kind', 'outcome', '--json']);
    onTestFinished(() => void importing.process.kill('SIGKILL'));
    importing.process.stdin?.write(`${lines.slice(0, 4).join('\n')}\n`);
    await expect.poll(() => storedEvents(dataDir)).toHaveLength(4);
    importing.process.kill('SIGINT');
    expect(await importing.exited).toBe(130);
    expect(JSON.parse(importing.output.stdout)).toMatchObject({ complete: false, stored: 4 });
    expect(importing.output.stderr).toBe(
      'collector: stopped by SIGINT; all up to line 4 of - is done (4 events stored); run it again to go on, ' +
        'nothing is stored twice\n',
    );
    expect(noted().filter(({ command }) => command === 'import')).toMatchObject([
      { state: 'begun' },
      {
        ...{ state: 'ended', events: 4, complete: false },
        files: [{ file: '-', lines: 4, stored: 4, repeats: 0, refused: 0, bytes: null, sha256: null }],
      },
    ]);
    await expectWhole(dataDir);
    expect(await told(file(lines), '--kind', 'outcome')).toMatchObject({ code: 0, stored: 6, repeats: 4 });
  });

  test('killed at any moment and run again, it has stored each event once', async () => {
    const lines = outcomes(40_000);
    const input = file(lines);
    let before = 0;
    for (let round = 0; round < 5; round++) {
      const importing = launch([
        'import',
        '--data-dir',
        dataDir,
        input,
        '--kind',
        'outcome',
        '--segment-bytes',
        '2MiB',
      ]);
      // A reading notes lines as well; and what was killed before it had a ledger leaves nothing to read.
      const begun = () =>
        fs.existsSync(path.join(dataDir, 'ledger', '0000000000000001.segment')) &&
        noted().filter(({ command, state }) => command === 'import' && state === 'begun').length > round;
      while (!begun() && importing.process.exitCode === null) await sleep(5);
      await sleep(50 + 200 * round + 100 * Math.random());
      importing.process.kill('SIGKILL');
      await importing.exited;
      const stored = (await storedEvents(dataDir)).map(({ body }) => body);
      expect(stored).toEqual(lines.slice(0, stored.length));
      expect(stored.length).toBeGreaterThanOrEqual(before);
      before = stored.length;
    }
    expect(await told(input, '--kind', 'outcome')).toMatchObject({
      ...{ code: 0, lines: 40_000, stored: 40_000 - before, repeats: before },
    });
    expect((await storedEvents(dataDir)).map(({ body }) => body)).toEqual(lines);
    await expectWhole(dataDir);
  });

  test('stops on a full disk, says how far it came, and goes on from there when there is space', async () => {
    const lines = Array.from({ length: 3000 }, () => outcomeOfSize(10_000));
    const input = file(lines);
    fs.mkdirSync(dataDir, { mode: 0o700 });
    const { limit, relieve } = limitedDisk(dataDir);
    const settings = ['--kind', 'outcome', '--segment-bytes', '4MiB'];
    expect((await told(file(lines.slice(0, 1), 'first'), ...settings)).code).toBe(0);
    const importing = launch(['import', '--data-dir', dataDir, input, ...settings]);
    limit(importing.process.pid);
    expect(await importing.exited, importing.output.stderr).toBe(1);
    expect(importing.output.stderr).toMatch(
      /(ENOSPC|EFBIG).*; all up to line \d+ of .* is done \(.*\); run it again/,
    );
    const done = Number(/up to line (\d+)/.exec(importing.output.stderr)?.[1]);
    expect(done).toBeGreaterThan(0);
    relieve();
    expect((await storedEvents(dataDir)).map(({ body }) => body)).toEqual(lines.slice(0, done));
    expect(await told(input, ...settings)).toMatchObject({ code: 0, stored: 3000 - done, repeats: done });
    await expectWhole(dataDir);
  });

  test('does not begin on a log that is damaged, and tells of an event that cannot be read', async () => {
    const lines = outcomes(1000);
    const input = file(lines);
    const settings = ['--kind', 'outcome', '--max-body-bytes', '16KiB', '--segment-bytes', '64KiB'];
    expect((await told(input, ...settings)).code).toBe(0);
    expect((await told(file(outcomes(1000), 'more'), ...settings)).code).toBe(0);
    const [first = '', second] = segmentPaths(dataDir);
    expect(second).toBeDefined();
    flipBit(first, fs.readFileSync(first).indexOf(lines[1] ?? '') + 50);
    const { code, stdout, stderr } = await importFiles(input, ...settings);
    expect(stdout).toContain('1,000 lines of 1 file read: 0 events stored, 999 stored before, 1 refused.');
    expect(stderr).toMatch(/^collector: warning: a stored event cannot be read in .*: .*\n$/);
    expect(code).toBe(3);
    expect(rejectsIn(`${input}.rejects.ndjson`)).toMatchObject([
      { line: 2, code: 'internal', outcome: 'unreadable', text: lines[1] },
    ]);
    fs.rmSync(path.join(dataDir, 'checkpoints', 'latest'));
    const contradicted = await importFiles(
      input,
      '--kind',
      'outcome',
      '--rejects',
      path.join(scratch, 'none'),
    );
    expect(contradicted.code).toBe(3);
    expect(contradicted.stderr).toContain('Nothing was changed; see collector doctor');
  });

  test.each([
    [6, ['none.ndjson'], 'there is no file'],
    [2, ['.'], 'is a directory'],
    [2, ['-', '-'], 'only once'],
    [2, ['events.ndjson', '--kind', 'outcomes'], 'is none of'],
    [2, ['events.ndjson', '--organisation', 'a b'], '--organisation'],
    [2, ['events.ndjson', '--profile', 'maximum'], 'profile'],
    [2, ['events.ndjson', '--fix', 'timestamps'], '--fix'],
    [2, ['events.ndjson', '--fix', 'timestamps=Berlin'], 'Europe/Berlin'],
    [2, ['events.ndjson', '--rejects', 'events.ndjson'], 'exists'],
    [2, [], 'file'],
  ])('ends with %i, and nothing is done, when it is given %j', async (code, args, message) => {
    file(outcomes(1));
    const words = args.map((word) => (/^(\.|.*\.ndjson)$/.test(word) ? path.join(scratch, word) : word));
    const ended = await importFiles(...words);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).toContain(message);
    expect(fs.readdirSync(scratch)).toEqual(['events.ndjson']);
  });

  test.skipIf(!hasTerminal)(
    'shows on a terminal how far it is, and nowhere else',
    async () => {
      const lines = Array.from({ length: 40 }, () => outcomeOfSize(1 << 20));
      const input = file(lines);
      const command = ['import', '--data-dir', dataDir, input, '--kind', 'outcome'];
      const { stdout } = await runOnTerminal(command);
      expect(stdout).toMatch(/\d+% of 40 MiB, .*MiB\/s, .* left/);
      expect(stdout).toContain('40 events stored');
      const piped = await run(command);
      expect(piped.stderr).toBe('');
      expect(piped.stdout).toBe(
        '40 lines of 1 file read: 0 events stored, 40 stored before, none refused.\n',
      );
    },
    60_000,
  );
});

/** A file system of 12 MiB for the directory, where that is allowed; else a limit on the size of files stands in for it. */
function limitedDisk(directory: string): { limit: (pid: number | undefined) => void; relieve: () => void } {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m,mode=700', 'tmpfs', directory], { stdio: 'pipe' });
  } catch (error) {
    console.warn(
      `\n*** THE FULL DISK IS NOT A REAL ONE: no small file system can be mounted here (${String(error)}).`,
    );
    return {
      // The first segment has its size already; the next one cannot be made.
      limit: (pid) => void execFileSync('prlimit', ['--pid', String(pid), `--fsize=${(4 << 20) - 1}:`]),
      relieve: () => undefined,
    };
  }
  onTestFinished(() => void execFileSync('umount', ['-l', directory]));
  return {
    limit: () => undefined,
    relieve: () => void execFileSync('mount', ['-o', 'remount,size=200m', directory]),
  };
}
