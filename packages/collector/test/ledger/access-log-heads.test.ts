import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { ENTRY_KINDS, SALT_BYTES } from '@clinical-events/protocol';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { AccessChain, headIn, type AccessHead, type LoggedHead } from '../../src/tree/access-chain.js';
import { AccessLogHeads } from '../../src/ledger/access-log-heads.js';
import { openAccessLog } from '../../src/store/open-access-log.js';
import type { Candidate } from '../../src/store/contract/events.js';
import { temporaryDirectory } from '../running/collector-process.js';

let dataDir: string;
let file: string;
beforeEach(() => {
  dataDir = temporaryDirectory();
  file = path.join(dataDir, 'access.log');
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

/** The entries of a log, and the reports. */
class World {
  readonly entries: Candidate[] = [];
  readonly altered: string[] = [];
  readonly troubles: unknown[] = [];
  failure: Error | undefined;

  open(newest?: Buffer): AccessLogHeads {
    return new AccessLogHeads({
      store: openAccessLog(dataDir),
      newest,
      append: (entry) => {
        if (this.failure !== undefined) return Promise.reject(this.failure);
        this.entries.push(entry);
        return Promise.resolve();
      },
      onTrouble: (_what, error) => this.troubles.push(error),
      onAltered: (reason) => this.altered.push(reason),
    });
  }

  get bodies(): Buffer[] {
    return this.entries.map(({ salted }) => Buffer.from(salted.subarray(SALT_BYTES)));
  }

  get heads(): (LoggedHead | undefined)[] {
    return this.bodies.map(headIn);
  }
}

const append = (...lines: readonly string[]) => lines.forEach((line) => fs.appendFileSync(file, `${line}\n`));

function headOf(...lines: readonly string[]): AccessHead {
  const chain = new AccessChain();
  chain.take(Buffer.from(lines.map((line) => `${line}\n`).join('')));
  return chain.head;
}

describe('[R-718] the heads of the access log', () => {
  test('are stored when lines have come, and not otherwise', async () => {
    const world = new World();
    const heads = world.open();
    await heads.look();
    expect(world.entries).toEqual([]);
    append('one', 'two');
    await heads.look();
    await heads.look();
    append('three');
    await heads.close();
    expect(world.heads).toEqual([headOf('one', 'two'), headOf('one', 'two', 'three')]);
    expect([world.altered, world.troubles]).toEqual([[], []]);
    const [entry] = world.entries;
    expect(entry).toMatchObject({ kind: ENTRY_KINDS.accessLogHead, organisation: '' });
    const { event_id: id } = JSON.parse(String(world.bodies[0])) as { event_id: string };
    expect(id.replaceAll('-', '')).toBe(Buffer.from(entry?.eventId ?? []).toString('hex'));
  });

  test('continue from the newest one in the log, which is not written twice', async () => {
    append('one', 'two');
    const before = new World();
    await before.open().close();
    const after = new World();
    const heads = after.open(before.bodies[0]);
    await heads.look();
    expect(after.entries).toEqual([]);
    append('three');
    await heads.close();
    expect(after.heads).toEqual([headOf('one', 'two', 'three')]);
    // Killed between a line and its head, or where the newest head is not known, the next start writes it.
    const unknown = new World();
    await unknown.open().look();
    expect(unknown.heads).toEqual(after.heads);
  });

  test('do not cover a torn line until it is complete', async () => {
    const world = new World();
    const heads = world.open();
    fs.writeFileSync(file, 'one\n{"at":"20');
    await heads.look();
    append('');
    await heads.close();
    expect(world.heads).toEqual([headOf('one'), headOf('one', '{"at":"20')]);
    expect(world.altered).toEqual([]);
  });

  test.each<[string, () => void, RegExp, string[]]>([
    ['removed', () => fs.rmSync(file), /truncated or removed/, []],
    ['cut', () => fs.truncateSync(file, 4), /truncated/, ['one']],
    ['overwritten', () => fs.writeFileSync(file, 'x'.repeat(99)), /lines were changed/, []],
  ])(
    'report while it runs that the file was %s, and continue with what is there',
    async (_how, change, told, left) => {
      append('one', 'two');
      const world = new World();
      const heads = world.open();
      await heads.look();
      change();
      await heads.look();
      if (fs.existsSync(file) && left.length === 0) fs.appendFileSync(file, '\n');
      append('three');
      await heads.close();
      expect(world.altered).toEqual([expect.stringMatching(told)]);
      const lines = fs.readFileSync(file, 'utf8').split('\n').slice(0, -1);
      expect(world.heads.at(0)).toEqual(headOf('one', 'two'));
      expect(world.heads.at(-1)).toEqual(headOf(...lines));
      expect(world.troubles).toEqual([]);
    },
  );

  test.each([
    ['fewer lines', ['one'], 'it has 1 whole lines, and the log has a head of 2'],
    ['other lines', ['one', 'TWO', 'three'], 'its first 2 lines are not those that the log has a head of'],
  ])('report at a start that there are %s than the log has a head of', async (_what, lines, told) => {
    append('one', 'two');
    const before = new World();
    await before.open().close();
    fs.rmSync(file);
    append(...lines);
    const after = new World();
    await after.open(before.bodies[0]).close();
    // Otherwise the numbers would not decrease, and the heads alone would not show the alteration.
    const mark = lines.length < 2 ? [] : [headOf()];
    expect([after.altered, after.heads]).toEqual([[`access.log: ${told}`], [...mark, headOf(...lines)]]);
    append('four');
    const last = new World();
    await last.open(after.bodies.at(-1)).close();
    expect([last.altered, last.heads]).toEqual([[], [headOf(...lines, 'four')]]);
  });

  test.each([
    ['a pipe', () => void execFileSync('mkfifo', [file])],
    ['a link', () => fs.symlinkSync('/dev/zero', file)],
    ['a directory', () => fs.mkdirSync(file)],
  ])('are not delayed by something else in the place of the file: %s', async (_what, make) => {
    make();
    const world = new World();
    const heads = world.open();
    await heads.look();
    await heads.look();
    expect([world.altered, world.entries]).toEqual([
      ['access.log is not a regular file and was not opened'],
      [],
    ]);
    fs.rmSync(file, { recursive: true });
    append('one');
    await heads.close();
    expect(world.heads).toEqual([headOf('one')]);
  });

  test('are stored later when they could not be stored', async () => {
    append('one');
    const world = new World();
    const heads = world.open();
    world.failure = new Error('no space');
    await heads.look();
    append('two');
    world.failure = undefined;
    await heads.close();
    expect(world.heads).toEqual([headOf('one', 'two')]);
    expect(world.troubles).toEqual([new Error('no space')]);
  });

  test('leave time for other work while a million lines are read at a start', async () => {
    const lines = Buffer.from(`${'x'.repeat(99)}\n`.repeat(1_000_000));
    fs.writeFileSync(file, lines);
    const world = new World();
    let turns = 0;
    const count = () => {
      turns++;
      if (world.entries.length === 0) setImmediate(count);
    };
    const heads = world.open().start(3_600_000);
    // At once, before anything is read.
    count();
    await heads.look();
    await heads.close();
    expect(world.heads.map((head) => head?.lines)).toEqual([1_000_000]);
    expect(turns).toBeGreaterThan(lines.length / (64 << 10) / 2);
  });
});

describe('[R-2056] the heads of an access log with a file for each year', () => {
  const line = (year: number, what: string) => JSON.stringify({ at: `${year}-06-01T08:00:00.000Z`, what });
  const log = (...lines: readonly string[]) => {
    for (const each of lines) openAccessLog(dataDir).append(each);
  };
  const [one, two, three, four] = [
    line(2026, 'one'),
    line(2026, 'two'),
    line(2027, 'three'),
    line(2029, 'four'),
  ];
  const closing = (file: string | undefined, ...lines: readonly string[]) => ({
    ...headOf(...lines),
    ...(file !== undefined && { file }),
    closes: true,
  });
  const inYear = (year: number, ...lines: readonly string[]) => ({
    ...headOf(...lines),
    file: `access-${year}.log`,
  });

  test('close each file with all its lines, and begin again in the next file', async () => {
    const world = new World();
    const heads = world.open();
    log(one, two);
    await heads.look();
    log(three);
    await heads.look();
    log(four, line(2028, 'of a clock that was set back'));
    await heads.close();
    expect(fs.readdirSync(dataDir).sort()).toEqual(['access-2027.log', 'access-2029.log', 'access.log']);
    expect(world.heads).toEqual([
      headOf(one, two),
      closing(undefined, one, two),
      inYear(2027, three),
      closing('access-2027.log', three),
      inYear(2029, four, line(2028, 'of a clock that was set back')),
    ]);
    expect([world.altered, world.troubles]).toEqual([[], []]);
    expect(JSON.parse(String(world.bodies[1]))).toEqual({
      event_id: expect.any(String) as string,
      ...{ format: 'clinical-events/access-log-closed/v1', file: 'access.log', ...headOf(one, two) },
    });
  });

  test.each([0, 1, 2, 3, 4])(
    'are completed by the next start after a kill after %i of them, and none is stored twice',
    async (stored) => {
      log(one, two);
      const whole = new World();
      const heads = whole.open();
      await heads.look();
      log(three, four);
      await heads.close();
      expect(whole.heads).toHaveLength(4);
      const next = new World();
      await next.open(whole.bodies[stored - 1]).close();
      expect(next.heads).toEqual(whole.heads.slice(Math.max(stored, 1)));
      expect(next.altered).toEqual([]);
    },
  );

  test('cover a line that a slow process appends to the closed file', async () => {
    log(one, three);
    const world = new World();
    const heads = world.open();
    await heads.look();
    append(two);
    await heads.look();
    await heads.close();
    const newest = inYear(2027, three);
    const late = closing(undefined, one, two);
    // The newest head is of the newest file again, so that the next start compares it.
    expect(world.heads).toEqual([closing(undefined, one), newest, late, newest]);
    for (const body of world.bodies.slice(2)) {
      const next = new World();
      log(line(2027, 'later'));
      await next.open(body).close();
      expect([next.altered, next.heads.map((head) => head?.file)]).toEqual([[], ['access-2027.log']]);
    }
  });

  test('do not need a closed file that was moved away', async () => {
    log(one, three);
    const world = new World();
    const heads = world.open();
    await heads.look();
    fs.rmSync(file);
    log(line(2027, 'later'));
    await heads.close();
    expect(world.heads.at(-1)).toEqual(inYear(2027, three, line(2027, 'later')));
    for (const newest of [world.bodies[0], world.bodies.at(-1)]) {
      const next = new World();
      await next.open(newest).close();
      expect(next.altered).toEqual([]);
    }
    expect([world.altered, world.troubles]).toEqual([[], []]);
  });

  test.each(['a line', 'nothing'])(
    'never close a missing file, where the next file has %s, and compare it once it is back',
    async (has) => {
      log(one, two);
      const [before, whileRunning] = [new World(), new World()];
      await before.open().close();
      const running = whileRunning.open(before.bodies[0]);
      await running.look();
      fs.renameSync(file, `${file}.moved`);
      fs.writeFileSync(path.join(dataDir, 'access-2027.log'), has === 'nothing' ? '' : `${three}\n`);
      const next = has === 'nothing' ? [] : [inYear(2027, three)];
      await running.close();
      expect([whileRunning.altered, whileRunning.heads]).toEqual([
        ['access.log: it was truncated or removed'],
        next,
      ]);
      const after = new World();
      await after.open(before.bodies[0]).close();
      expect(after.altered).toEqual(['access.log: it has 0 whole lines, and the log has a head of 2']);
      expect(after.heads).toEqual(next);
      fs.renameSync(`${file}.moved`, file);
      const back = new World();
      await back.open(before.bodies[0]).close();
      expect([back.altered, back.heads]).toEqual([[], [closing(undefined, one, two), ...next]]);
    },
  );

  test('continue in the next file where something else is in place of a file that is not closed yet', async () => {
    log(one, two);
    const world = new World();
    const heads = world.open();
    await heads.look();
    log(three);
    fs.renameSync(file, `${file}.moved`);
    fs.symlinkSync(`${file}.moved`, file);
    await heads.look();
    await heads.close();
    expect(world.altered).toEqual(['access.log is not a regular file and was not opened']);
    expect(world.heads).toEqual([headOf(one, two), inYear(2027, three)]);
  });

  test('are compared again once the file has replaced something else in its place', async () => {
    log(one, two);
    const world = new World();
    const heads = world.open();
    await heads.look();
    fs.rmSync(file);
    fs.mkdirSync(file);
    await heads.look();
    fs.rmdirSync(file);
    log(two, one);
    await heads.close();
    expect(world.altered).toEqual([
      'access.log is not a regular file and was not opened',
      'access.log: its first 2 lines are not those that the log has a head of',
    ]);
    expect(world.heads).toEqual([headOf(one, two), headOf(), headOf(two, one)]);
  });

  test('never close a file with fewer lines than its head, or with other lines', async () => {
    log(one, two);
    const before = new World();
    await before.open().close();
    log(three);
    for (const [lines, heads] of [
      [[two], [headOf(two)]],
      [
        [two, one],
        [headOf(), headOf(two, one)],
      ],
    ] as const) {
      fs.rmSync(file);
      append(...lines);
      const after = new World();
      await after.open(before.bodies[0]).close();
      expect(after.altered).toHaveLength(1);
      expect(after.heads).toEqual([...heads, inYear(2027, three)]);
    }
  });
});
