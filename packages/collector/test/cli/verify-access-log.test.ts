import fs from 'node:fs';
import path from 'node:path';
import { formatCheckpoint } from '@clinical-events/protocol/verify';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { beginReading } from '../../src/cli/access-log.js';
import { accessLogOrigin } from '../../src/integrity/access-log-keys.js';
import { SigningKeys } from '../../src/signing/key-directory.js';
import { leafOf, mth } from '../integrity/rfc-tree.js';
import { run, start, temporaryDirectory, type Running } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { copyOf, scratch } from '../running/scratch.js';
import { fillSigned, firstKey, loggedEvent, ORIGIN, signReadings } from './signed-directory.js';

const READINGS = 4;
let master: string;
let dataDir: string;

beforeAll(async () => {
  master = temporaryDirectory();
  await issueKey(master);
  await fillSigned(master, [[loggedEvent('one'), loggedEvent('two')]]);
  for (let i = 0; i < READINGS; i++)
    await run(['events', '--data-dir', master, '--organisation', `ward-${i}`]);
  await signReadings(master);
}, 60_000);
afterAll(() => fs.rmSync(master, { recursive: true, force: true }));

beforeEach(() => {
  dataDir = copyOf(master);
});

const logOf = (directory: string) => path.join(directory, 'access.log');
const checkpointOf = (directory: string) => path.join(directory, 'checkpoints', 'access-log');

function readLines(): string[] {
  return fs.readFileSync(logOf(dataDir), 'utf8').split('\n').slice(0, -1);
}

function writeLines(lines: readonly string[]): void {
  fs.writeFileSync(logOf(dataDir), lines.map((line) => `${line}\n`).join(''));
}

interface Report {
  readonly intact: boolean;
  readonly access_log: Readonly<Record<string, unknown>> | null;
  readonly findings: readonly { kind: string; file?: string; message: string }[];
}

async function verify(...args: readonly string[]): Promise<Report & { code: number | null }> {
  const { code, stdout, stderr } = await run(['verify', '--json', '--data-dir', dataDir, ...args]);
  expect(stderr).toBe('');
  return { code, ...(JSON.parse(stdout) as Report) };
}

/** What `doctor` says of the access log. */
async function doctor(): Promise<{ code: number | null; told: { severity: string; message: string }[] }> {
  const { code, stdout } = await run(['doctor', '--json', '--data-dir', dataDir]);
  const { findings } = JSON.parse(stdout) as {
    findings: { severity: string; subject: string; message: string }[];
  };
  return { code, told: findings.filter(({ subject }) => subject === 'access log') };
}

async function read(directory: string): Promise<void> {
  expect((await run(['events', '--data-dir', directory])).code).toBe(0);
}

async function serving(...args: readonly string[]): Promise<Running> {
  const collector = await start(dataDir, args);
  onTestFinished(() => collector.kill());
  return collector;
}

function signedLines(): number {
  return Number(fs.readFileSync(checkpointOf(dataDir), 'utf8').split('\n')[1]);
}

/** Signs these lines with the true key of the log, as its owner could. */
async function signed(lines: readonly string[], name = accessLogOrigin(ORIGIN)): Promise<string> {
  const onTrouble = (what: string) => {
    throw new Error(what);
  };
  const keys = SigningKeys.open({ dataDir, directory: path.join(dataDir, 'signing-keys'), onTrouble });
  const root = mth(lines.map((line) => leafOf(Buffer.from(line))));
  return keys.sign(formatCheckpoint({ origin: name, size: lines.length, root }), name);
}

describe('collector verify, of the access log', () => {
  test('[R-718] finds it as it was signed, and says how far that goes', async () => {
    expect(await verify('--key', firstKey(dataDir))).toMatchObject({
      ...{ code: 0, intact: true, findings: [] },
      access_log: { lines: 8, unsigned_lines: 0, unended: 0, torn: 0 },
    });
    await read(dataDir);
    const last = (JSON.parse(readLines()[8] ?? '') as { at: string }).at;
    expect(await verify()).toMatchObject({
      ...{ code: 0, intact: true, findings: [] },
      access_log: { lines: 10, unsigned_lines: 2, last_reading: last },
    });
    const { stdout } = await run(['verify', '--data-dir', dataDir]);
    expect(stdout).toContain(
      `\nAccess log  10 lines, 2 of them under no checkpoint; the last began at ${last}\n`,
    );
    expect(await doctor()).toEqual({
      code: 0,
      told: [
        {
          ...{ severity: 'ok', subject: 'access log' },
          message: `10 lines, 2 of them under no checkpoint; the last began at ${last}`,
        },
      ],
    });
  });

  test.each<[string, (lines: string[]) => string[], RegExp]>([
    ['altered', (lines) => lines.with(2, lines[2]?.replace('ward-1', 'ward-9') ?? ''), /are not those that/],
    ['removed', (lines) => lines.toSpliced(2, 2), /has 6 whole lines, and .* was signed over 8/],
    [
      'removed, and another noted',
      (lines) => [...lines.toSpliced(2, 2), ...lines.slice(0, 4)],
      /are not those that/,
    ],
    ['put in', (lines) => lines.toSpliced(2, 0, ...lines.slice(0, 2)), /are not those that/],
    ['put in another order', (lines) => [...lines.slice(2), ...lines.slice(0, 2)], /are not those that/],
    ['cut off the end', (lines) => lines.slice(0, 7), /has 7 whole lines, and .* was signed over 8/],
    ['all removed', () => [], /has 0 whole lines, and .* was signed over 8/],
  ])('[R-718] tells that lines were %s', async (_how, change, message) => {
    writeLines(change(readLines()));
    const { code, intact, findings } = await verify();
    expect([code, intact]).toEqual([3, false]);
    expect(findings).toEqual([
      { kind: 'access_log_altered', file: 'access.log', message: expect.stringMatching(message) as string },
    ]);
    const { stdout } = await run(['verify', '--data-dir', dataDir]);
    expect(stdout).toMatch(/^NOT INTACT: 1 finding\n/);
    expect(stdout.replace(/\s+/g, ' ')).toContain('access log altered: ');
    const { code: unwell, told } = await doctor();
    expect([unwell, told.map(({ severity }) => severity)]).toEqual([3, ['damage']]);
  });

  test('[R-718] tells of a line that no command writes, signed or not', async () => {
    fs.appendFileSync(logOf(dataDir), 'nobody was here\n');
    for (const sign of [false, true]) {
      if (sign) await signReadings(dataDir);
      expect(await verify()).toMatchObject({
        ...{ code: 3, intact: false },
        findings: [
          {
            kind: 'access_log_altered',
            message: 'line 9 of access.log is not one that the collector writes',
          },
        ],
      });
    }
  });

  test('[R-718] tells that the log or its checkpoint is not there, or is something else', async () => {
    fs.rmSync(logOf(dataDir));
    const gone = { file: 'access.log', message: expect.stringContaining('has 0 whole lines') as string };
    expect((await verify()).findings).toEqual([{ kind: 'access_log_altered', ...gone }]);
    fs.mkdirSync(logOf(dataDir));
    expect((await verify()).findings).toEqual([
      expect.objectContaining({ kind: 'unreadable', file: 'access.log' }),
    ]);
    expect((await doctor()).told).toMatchObject([{ severity: 'damage' }]);
    fs.rmdirSync(logOf(dataDir));
    fs.symlinkSync(logOf(master), logOf(dataDir));
    expect((await verify()).findings).toMatchObject([{ kind: 'unreadable', file: 'access.log' }]);
    fs.rmSync(logOf(dataDir));
    fs.copyFileSync(logOf(master), logOf(dataDir));
    fs.rmSync(checkpointOf(dataDir));
    expect((await verify()).findings).toEqual([
      {
        ...{ kind: 'checkpoint_missing', file: 'checkpoints/access-log' },
        message: expect.stringContaining('is missing, the checkpoint of the readings') as string,
      },
    ]);
    expect((await doctor()).told).toMatchObject([{ severity: 'damage' }]);
    // Nor does it help to remove both.
    fs.rmSync(logOf(dataDir));
    expect((await verify()).findings).toMatchObject([{ kind: 'checkpoint_missing' }]);
    // Before the first event it may not be there yet.
    dataDir = scratch();
    await fillSigned(dataDir, []);
    fs.rmSync(checkpointOf(dataDir));
    expect(await verify()).toMatchObject({ code: 0, intact: true, access_log: null });
  });

  test('[R-718] takes no checkpoint that is forged, of the events, or of another log', async () => {
    const lines = [...readLines().slice(0, 6), readLines()[0] ?? '', readLines()[1] ?? ''];
    const forged = await signed(lines);
    const own = fs.readFileSync(checkpointOf(dataDir), 'utf8');
    const mixed = forged.slice(0, forged.indexOf('\u2014')) + own.slice(own.indexOf('\u2014'));
    writeLines(lines);
    for (const note of [
      mixed,
      fs.readFileSync(path.join(dataDir, 'checkpoints', 'latest'), 'utf8'),
      await signed(lines, 'log.example/ward-8/access-log'),
      own.slice(0, -9),
      '',
    ]) {
      fs.writeFileSync(checkpointOf(dataDir), note);
      expect(await verify()).toMatchObject({
        ...{ code: 3, intact: false },
        findings: [{ kind: 'checkpoint_invalid', file: 'checkpoints/access-log' }],
      });
    }
  });

  test('[R-716] counts the readings that were not noted to have ended', async () => {
    beginReading(dataDir, { command: 'events', filter: {} });
    expect(await verify()).toMatchObject({ code: 0, intact: true, access_log: { lines: 9, unended: 1 } });
    expect((await doctor()).told).toMatchObject([
      { severity: 'ok', message: expect.stringContaining('; 1 reading not noted to have ended; ') as string },
    ]);
  });

  test('[R-718] takes a torn line for what it is, at the end or once another stands behind it', async () => {
    fs.appendFileSync(logOf(dataDir), '{"at":"2026-03-04T05:');
    expect(await verify()).toMatchObject({
      ...{ code: 0, intact: true, access_log: { lines: 8, unsigned_lines: 0 } },
      findings: [
        {
          kind: 'note',
          message: 'the last 21 bytes of access.log are a torn line, or one that is being written',
        },
      ],
    });
    await read(dataDir);
    for (const unsigned of [3, 0]) {
      if (unsigned === 0) await signReadings(dataDir);
      expect(await verify()).toMatchObject({
        ...{ code: 0, intact: true, access_log: { lines: 11, unsigned_lines: unsigned, torn: 1 } },
        findings: [{ kind: 'note', message: '1 line of access.log is torn, as by a crash or a full disk' }],
      });
    }
    expect((await doctor()).told).toMatchObject([{ severity: 'ok' }, { severity: 'warning' }]);
  });

  test('[R-718] finds the log rebuilt and signed with the true key by a checkpoint from elsewhere, in a file of both kinds', async () => {
    const given = path.join(scratch(), 'sink');
    const latest = fs.readFileSync(path.join(dataDir, 'checkpoints', 'latest'), 'utf8');
    const halfway = await signed(readLines().slice(0, 2));
    const newest = fs.readFileSync(checkpointOf(dataDir), 'utf8');
    fs.writeFileSync(given, [latest, halfway, newest].map((note) => `${note}\n`).join(''));
    expect(await verify('--against', given)).toMatchObject({ code: 0, intact: true, findings: [] });
    const lines = readLines().with(3, readLines()[3]?.replace('"events":0', '"events":1') ?? '');
    writeLines(lines);
    fs.writeFileSync(checkpointOf(dataDir), await signed(lines));
    expect(await verify()).toMatchObject({ code: 0, intact: true });
    const { code, findings } = await verify('--against', given);
    expect(code).toBe(3);
    expect(findings).toEqual([
      {
        ...{ kind: 'access_log_altered', file: 'access.log' },
        message: expect.stringMatching(
          /that .*sink, note 3, was signed over: .*; the first 2 still are$/,
        ) as string,
      },
    ]);
    // One that says to be of this log, and is not signed by it, was changed.
    fs.writeFileSync(given, `${latest}\n${halfway.replace('\n2\n', '\n3\n')}\n`);
    expect((await verify('--against', given)).findings).toMatchObject([{ kind: 'checkpoint_invalid' }]);
    fs.writeFileSync(given, latest);
    const { stdout } = await run(['verify', '--data-dir', dataDir, '--against', given]);
    expect(stdout).toContain('No checkpoint of access.log was among those given');
    fs.writeFileSync(given, newest);
    expect((await verify('--against', given)).findings).toMatchObject([{ kind: 'access_log_altered' }]);
  });
});

describe('a collector', () => {
  test('[R-718] signs readings as they come, gives the checkpoints away, and a rollback of both is found by what left the host', async () => {
    const [worm, file] = [scratch(), path.join(scratch(), 'checkpoints')];
    const sinks = ['--checkpoint-sink', `dir:${worm},file:${file}`, '--checkpoint-interval-ms', '100'];
    const first = await serving(...sinks);
    await read(dataDir);
    await expect.poll(signedLines).toBe(10);
    expect(await first.stop()).toBe(0);
    const kept = scratch();
    const own = ['access.log', 'checkpoints/access-log', 'checkpoints/sinks.json'];
    for (const name of own) fs.cpSync(path.join(dataDir, name), path.join(kept, name));
    const second = await serving(...sinks);
    await read(dataDir);
    await expect.poll(signedLines).toBe(12);
    expect(await second.stop()).toBe(0);
    for (const against of [worm, file]) {
      expect(await verify('--against', against)).toMatchObject({ code: 0, intact: true, findings: [] });
    }
    // With what the collector itself remembers of its sinks the directory contradicts itself.
    for (const name of own.slice(0, 2)) fs.cpSync(path.join(kept, name), path.join(dataDir, name));
    expect((await verify()).findings).toMatchObject([
      { kind: 'checkpoint_missing', file: 'checkpoints/access-log' },
    ]);
    fs.cpSync(path.join(kept, 'checkpoints/sinks.json'), path.join(dataDir, 'checkpoints/sinks.json'));
    expect(await verify()).toMatchObject({ code: 0, intact: true });
    for (const against of [worm, file]) {
      expect(await verify('--against', against)).toMatchObject({
        ...{ code: 3, intact: false },
        findings: [
          { kind: 'access_log_altered', message: expect.stringContaining('signed over 12') as string },
        ],
      });
    }
    const third = await serving(...sinks);
    await expect.poll(() => third.output.stderr).toContain('a checkpoint of 12 lines, and access.log has 10');
    expect(third.output.stderr).toContain('"level":"error"');
  }, 60_000);

  test('[R-718] killed between a reading and its checkpoint loses neither, and the next start signs', async () => {
    const killed = await serving('--checkpoint-interval-ms', '1h');
    await read(dataDir);
    await killed.kill();
    expect(await verify()).toMatchObject({
      code: 0,
      access_log: { lines: 10, unsigned_lines: 2, unended: 0 },
    });
    await serving('--checkpoint-interval-ms', '1h');
    await expect.poll(signedLines).toBe(10);
    expect(await verify()).toMatchObject({ code: 0, access_log: { lines: 10, unsigned_lines: 0 } });
  }, 60_000);

  test('[R-718] signs on with the key that took over, which verify follows from the first', async () => {
    const key = firstKey(dataDir);
    const collector = await serving('--checkpoint-interval-ms', '100');
    const rotated = await run(['signing-key', 'rotate', '--overlap', '0', '--json', '--data-dir', dataDir]);
    expect([rotated.code, rotated.stderr]).toEqual([0, '']);
    const later = (JSON.parse(rotated.stdout) as { key: string }).key;
    // Signed by the first key alone, whose place the other has taken, for those who know the other alone.
    expect((await verify('--key', later)).findings).toEqual(
      expect.arrayContaining([
        {
          ...{ kind: 'checkpoint_invalid', file: 'checkpoints/access-log' },
          message: expect.stringContaining('only a key from before those given has signed it') as string,
        },
      ]),
    );
    await read(dataDir);
    await expect.poll(signedLines).toBe(10);
    expect(await collector.stop()).toBe(0);
    for (const given of [key, later]) {
      expect((await verify('--key', given)).findings.filter(({ file }) => file?.includes('access'))).toEqual(
        [],
      );
    }
    expect(await verify('--key', key)).toMatchObject({ code: 0, intact: true, findings: [] });
  }, 60_000);

  test('[R-718] takes events all the same when the access log was changed, says so loudly, and signs no more of it', async () => {
    writeLines(readLines().toSpliced(0, 1));
    const before = fs.readFileSync(checkpointOf(dataDir), 'utf8');
    const collector = await serving('--checkpoint-interval-ms', '100');
    await expect.poll(() => collector.output.stderr).toContain('access.log was changed');
    const told = collector.output.stderr
      .split('\n')
      .filter((line) => line.includes('access.log was changed'));
    expect(told.map((line) => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({ level: 'error', reason: 'access.log has 7 whole lines, and 8 were signed' }),
    ]);
    await read(dataDir);
    expect((await fetch(`${collector.url}/health`)).status).toBeLessThan(500);
    expect(await collector.stop()).toBe(0);
    expect(fs.readFileSync(checkpointOf(dataDir), 'utf8')).toBe(before);
  }, 60_000);

  test.each<[string, (lines: string[]) => string[] | undefined, number]>([
    ['as a collector from before leaves it', (lines) => lines, 8],
    ['cut as well', (lines) => lines.slice(0, 4), 4],
    ['removed as well', () => undefined, 0],
  ])(
    '[R-718] takes up an access log whose checkpoint is missing, %s, and verify and doctor tell of it ever after',
    async (_how, change, lines) => {
      const elsewhere = path.join(scratch(), 'kept');
      fs.writeFileSync(elsewhere, await signed(readLines().slice(0, 4)));
      fs.rmSync(checkpointOf(dataDir));
      const found = change(readLines());
      if (found === undefined) fs.rmSync(logOf(dataDir));
      else writeLines(found);
      const first = await serving();
      await expect.poll(() => fs.existsSync(checkpointOf(dataDir)) && signedLines()).toBe(lines + 1);
      expect(first.output.stderr).toContain(`nothing proves its ${lines} lines from before`);
      expect(await first.stop()).toBe(0);
      await read(dataDir);
      const second = await serving();
      await expect.poll(signedLines).toBe(lines + 3);
      expect(await second.stop()).toBe(0);
      const adopted = JSON.parse(readLines()[lines] ?? '') as { at: string };
      expect(adopted).toMatchObject({ state: 'adopted', uid: process.getuid?.(), lines });
      const message = expect.stringContaining(`the readings before ${adopted.at} are not covered`) as string;
      expect(await verify()).toMatchObject({
        ...{ code: 0, intact: true, access_log: { lines: lines + 3, not_covered_before: adopted.at } },
        findings: [{ kind: 'note', file: 'access.log', message }],
      });
      const { stdout } = await run(['verify', '--data-dir', dataDir]);
      expect(stdout).toContain(`; nothing proves those before ${adopted.at}; `);
      expect(await doctor()).toMatchObject({
        ...{ code: 0, told: [{ severity: 'ok' }, { severity: 'warning', message }] },
      });
      // What left the host before still tells.
      const against = await verify('--against', elsewhere);
      expect([against.code, against.findings.map(({ kind }) => kind)]).toEqual(
        lines === 0 ? [3, ['access_log_altered', 'note']] : [0, ['note']],
      );
      const still = 'but for the first 4, which a checkpoint given proves';
      expect(against.findings.at(-1)?.message.includes(still)).toBe(lines > 0);
      // The line cannot be taken back either.
      writeLines(readLines().toSpliced(lines, 1));
      expect(await verify()).toMatchObject({ code: 3, access_log: { not_covered_before: null } });
    },
    60_000,
  );
});
