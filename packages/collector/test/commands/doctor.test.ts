import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createKey, outcomeEvent, run, start, temporaryDirectory } from '../running/collector-process.js';
import { contents } from '../running/directory-contents.js';
import { post } from '../running/load.js';
import {
  canMount,
  hasTerminal,
  runOnFullDisk,
  runOnTerminal,
  runReadOnly,
} from '../running/restricted-process.js';
import { scratch } from '../running/scratch.js';
import { candidate } from '../store/candidate.js';
import { flipBit, frameOffset, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned } from './signed-directory.js';

let dataDir: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

interface Report {
  readonly data_dir: string;
  readonly damaged: boolean;
  readonly findings: readonly { severity: string; subject: string; message: string }[];
}

async function examine(): Promise<{ code: number | null; report: Report }> {
  const { code, stdout, stderr } = await run(['doctor', '--json', '--data-dir', dataDir]);
  expect(stderr).toBe('');
  return { code, report: JSON.parse(stdout) as Report };
}

function found({ findings }: Report, subject: string) {
  return findings.filter((finding) => finding.subject === subject);
}

const EVENTS = Array.from({ length: 300 }, (_, i) => candidate({ body: { i, filler: 'x'.repeat(600) } }));
const BATCHES = Array.from({ length: 30 }, (_, i) => EVENTS.slice(i * 10, i * 10 + 10));

describe('collector doctor', () => {
  test('[R-703] finds nothing wrong with a sound directory, for people and for scripts, and changes nothing', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, BATCHES);
    const before = contents(dataDir);
    const { code, stdout, stderr } = await run(['doctor', '--data-dir', dataDir]);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^ +CHECKED +FOUND$/m);
    expect(stdout).toMatch(/^ok +events +300 events, each checked$/m);
    expect(stdout).toMatch(/^ok +keys +1 key can be read$/m);
    expect(stdout).not.toMatch(/DAMAGED/);
    const { code: again, report } = await examine();
    expect([again, report.damaged, report.data_dir]).toEqual([0, false, dataDir]);
    expect(found(report, 'tail')).toEqual([
      { severity: 'ok', subject: 'tail', message: 'ends after a whole event' },
    ]);
    expect(found(report, 'id index')).toMatchObject([{ severity: 'ok' }]);
    expect(found(report, 'lock')).toMatchObject([{ message: 'no collector is running on it' }]);
    const after = contents(dataDir);
    expect([...after.keys()]).toEqual([...before.keys()]);
    for (const [file, bytes] of before) expect(after.get(file) === bytes, file).toBe(true);
  });

  test('ends with exit code 6 if there is no such directory, or if it is not a data directory', async () => {
    expect(await run(['doctor', '--data-dir', path.join(dataDir, 'no')])).toEqual({
      ...{ code: 6, stdout: '' },
      stderr: `collector: there is no directory ${path.join(dataDir, 'no')}\n`,
    });
    const notData = {
      ...{ code: 6, stdout: '' },
      stderr: `collector: ${dataDir} is not a data directory: it holds neither a ledger nor keys\n`,
    };
    expect(await run(['doctor', '--data-dir', dataDir])).toEqual(notData);
    // As left by a copy that was interrupted, or that had no right to read the files.
    fs.mkdirSync(path.join(dataDir, 'ledger'));
    fs.mkdirSync(path.join(dataDir, 'index'));
    expect(await run(['doctor', '--json', '--data-dir', dataDir])).toEqual(notData);
    await createKey(dataDir);
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([0, false]);
    expect(found(report, 'events')).toMatchObject([{ message: 'none yet: no collector has run here' }]);
    expect(found(report, 'keys')).toMatchObject([{ severity: 'ok' }]);
  });

  test.each([
    ['missing', (file: string) => fs.rmSync(file)],
    ['empty', (file: string) => fs.truncateSync(file)],
  ])('[R-505] warns if there are events and keys.db is %s, and no start makes a key', async (_, act) => {
    await createKey(dataDir);
    await fillSigned(dataDir, [EVENTS.slice(0, 1)]);
    act(path.join(dataDir, 'keys.db'));
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([0, false]);
    const message = expect.stringContaining(
      'keys.db holds no API key, but the ledger holds events',
    ) as string;
    expect(found(report, 'keys')).toMatchObject([{ severity: 'warning', message }]);
    expect(found(report, 'events')).toMatchObject([{ message: '1 event, each checked' }]);
    const started = await run(['serve', '--port', '0', '--data-dir', dataDir]);
    expect([started.code, started.stdout]).toEqual([2, '']);
    expect(started.stderr).toContain('keys.db holds no API key');
    const key = await createKey(dataDir);
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    expect(collector.output.stdout).toBe('');
    expect((await post(collector.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
  });

  test('[R-505] an empty keys.db is not replaced if its -wal holds something', async () => {
    await createKey(dataDir);
    fs.truncateSync(path.join(dataDir, 'keys.db'));
    const log = path.join(dataDir, 'keys.db-wal');
    fs.writeFileSync(log, 'keys');
    for (const command of [
      ['serve', '--port', '0'],
      ['keys', 'create', '--permissions', 'all'],
    ]) {
      const { code, stderr } = await run([...command, '--data-dir', dataDir]);
      expect([code, stderr]).toEqual([3, expect.stringContaining('it is empty, but its -wal is not')]);
      expect(fs.readFileSync(log, 'utf8')).toBe('keys');
    }
  });

  test('finds damage if only the proof of a log is left', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, [EVENTS.slice(0, 1)]);
    for (const name of ['ledger', 'index']) fs.rmSync(path.join(dataDir, name), { recursive: true });
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([3, true]);
    expect(found(report, 'events')).toMatchObject([
      {
        severity: 'damage',
        message: expect.stringMatching(/^entry 1 is missing from the end of the log/) as string,
      },
    ]);
  });

  test('[R-615] finds no damage in a first start that was killed before it had signed anything', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, []);
    for (const file of ['checkpoints/latest', 'checkpoints/origin.vkey']) {
      fs.rmSync(path.join(dataDir, file));
      for (const kept of fs.readdirSync(path.join(dataDir, 'checkpoints'))) {
        if (kept.endsWith('.checkpoint')) fs.rmSync(path.join(dataDir, 'checkpoints', kept));
      }
      const { code, report } = await examine();
      expect([code, report.damaged], file).toEqual([0, false]);
    }
    const collector = await start(dataDir);
    expect(await collector.stop()).toBe(0);
    expect((await examine()).code).toBe(0);
  });

  test.each(['lock', 'keys.db', 'ledger/0000000000000001.segment', 'checkpoints/latest', 'tree/level-00'])(
    '[R-615] a directory in the place of %s ends a start and doctor with 3, and is named',
    async (name) => {
      await createKey(dataDir);
      await fillSigned(dataDir, [EVENTS.slice(0, 1)]);
      const file = path.join(dataDir, name);
      fs.rmSync(file, { force: true });
      fs.mkdirSync(file);
      const started = await run(['serve', '--port', '0', '--data-dir', dataDir]);
      expect([started.code, started.stderr]).toEqual([3, expect.stringContaining(file)]);
      const { code, stdout, stderr } = await run(['doctor', '--data-dir', dataDir]);
      expect([code, stdout + stderr]).toEqual([3, expect.stringContaining(file)]);
    },
  );

  test('[R-615] a lock that is not empty ends a start and doctor with 3 and is named, and does not stop readers', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, [EVENTS.slice(0, 1)]);
    const file = path.join(dataDir, 'lock');
    fs.writeFileSync(file, 'bytes');
    const message = expect.stringContaining(`${file} is not an empty file`) as string;
    const started = await run(['serve', '--port', '0', '--data-dir', dataDir]);
    expect([started.code, started.stderr]).toEqual([3, message]);
    const { code, report } = await examine();
    expect(code).toBe(3);
    expect(found(report, 'lock')).toMatchObject([{ severity: 'damage', message }]);
    expect((await run(['events', '--data-dir', dataDir])).code).toBe(0);
  });

  test('reports an index without a ledger as damage, as the start of a collector does', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, BATCHES);
    fs.rmSync(path.join(dataDir, 'ledger'), { recursive: true });
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([3, true]);
    expect(found(report, 'id index')).toMatchObject([{ severity: 'damage' }]);
    expect((await run(['serve', '--port', '0', '--data-dir', dataDir])).code).toBe(3);
  });

  test.skipIf(!canMount)('checks a read-only snapshot, also of a collector that was killed', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, BATCHES);
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    const snapshots = [temporaryDirectory(), temporaryDirectory(), temporaryDirectory()];
    onTestFinished(() => snapshots.forEach((each) => fs.rmSync(each, { recursive: true, force: true })));
    const [live = '', withoutShared = '', stopped = ''] = snapshots;
    await createKey(dataDir);
    for (const each of [live, withoutShared]) fs.cpSync(dataDir, each, { recursive: true });
    fs.rmSync(path.join(withoutShared, 'keys.db-shm'));
    expect(await collector.stop()).toBe(0);
    fs.cpSync(dataDir, stopped, { recursive: true });
    for (const each of snapshots) {
      const { code, stdout, stderr } = await runReadOnly(each, ['doctor', '--json', '--data-dir', each]);
      expect([code, stderr]).toEqual([0, '']);
      const { findings } = JSON.parse(stdout) as Report;
      // What is not configured is missing before the snapshot too. The catalogue may have been written while it was copied.
      const odd = findings.filter(
        ({ severity, subject }) =>
          severity !== 'ok' && !['sink', 'signing key', 'catalogue'].includes(subject),
      );
      expect(odd).toEqual([]);
      expect(findings).toContainEqual({ severity: 'ok', subject: 'keys', message: '2 keys can be read' });
      expect(findings.find(({ subject }) => subject === 'disk')?.message).toMatch(/^read-only/);
      const keys = await runReadOnly(each, ['keys', 'list', '--json', '--data-dir', each]);
      expect(JSON.parse(keys.stdout)).toHaveLength(2);
    }
  });

  test('reports no fault if a running collector has the end of the index in memory', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    expect((await post(collector.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
    const { code, report } = await examine();
    expect(code).toBe(0);
    const [index] = found(report, 'id index');
    expect(index?.severity).toBe('ok');
    expect(index?.message).toMatch(/^in step: the newest \d+ bytes are in the collector's memory$/);
    await collector.kill();
    expect(found((await examine()).report, 'id index')[0]?.message).toMatch(/the next start adds/);
  });

  test.skipIf(!hasTerminal)(
    'shows a progress bar only for a long check on a terminal, clears it, and has none with --json',
    async () => {
      const doctor = async (...args: string[]) =>
        (await runOnTerminal(['doctor', '--data-dir', dataDir, ...args])).stdout;
      const large = () =>
        Array.from({ length: 100 }, () => candidate({ body: { filler: 'x'.repeat(60_000) } }));
      await fillSigned(dataDir, [large()], { segmentBytes: 64 << 20 });
      expect(await doctor()).not.toContain('MiB,');
      await fillSigned(dataDir, Array.from({ length: 11 }, large), { segmentBytes: 64 << 20 });
      // For the log it is shown from 200,000 events on; for the catalogue, if there is one, from 64 MiB on.
      expect((await run(['runs', '--data-dir', dataDir])).code).toBe(0);
      const shown = await doctor();
      const [bar = '', table = ''] = shown.split('CHECKED');
      expect(bar).toMatch(/\d+% of \d+ MiB, /);
      // At the end its line is cleared.
      expect(bar.slice(bar.lastIndexOf('MiB,'))).toContain('\u001b[2K');
      expect(table).toContain('1200 events, each checked');
      expect(JSON.parse(await doctor('--json'))).toMatchObject({ damaged: false });
    },
  );

  test('reports a collector that is running, and warns of a directory that others can enter', async () => {
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    fs.chmodSync(dataDir, 0o755);
    const { code, report } = await examine();
    expect(code).toBe(0);
    expect(found(report, 'lock')).toMatchObject([{ message: 'a collector is running on it' }]);
    expect(found(report, 'directory')).toMatchObject([{ severity: 'warning' }]);
    expect(await collector.stop()).toBe(0);
  });

  test('[R-703] reports the file, the offset and the event of a flipped bit in any segment, with exit code 3', async () => {
    await fillSigned(dataDir, BATCHES);
    for (const segment of segmentPaths(dataDir)) {
      const sequence = Number.parseInt(path.basename(segment), 10) + 7;
      const offset = frameOffset(segment, EVENTS, sequence);
      flipBit(segment, offset + 300);
      const before = contents(dataDir);
      const { code, report } = await examine();
      expect([code, report.damaged]).toEqual([3, true]);
      expect(found(report, 'events')).toEqual([
        {
          severity: 'damage',
          subject: 'events',
          message: expect.stringMatching(
            `^the payload of event ${sequence} .* has changed; its envelope .* was signed; ` +
              `ledger/${path.basename(segment)}, byte ${offset}$`,
          ) as string,
        },
      ]);
      const human = await run(['doctor', '--data-dir', dataDir]);
      expect(human.code).toBe(3);
      expect(human.stdout).toMatch(/^DAMAGED +events +the payload/m);
      for (const [file, bytes] of before) {
        if (path.basename(file) !== 'lock') {
          expect(fs.readFileSync(file).toString('base64') === bytes, file).toBe(true);
        }
      }
      flipBit(segment, offset + 300);
    }
    expect((await examine()).code).toBe(0);
  });

  test('warns of a torn tail and of kept ones, and the start of a collector keeps it and logs that', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, BATCHES);
    const last = segmentPaths(dataDir).at(-1) ?? '';
    const end = frameOffset(last, EVENTS, EVENTS.length + 1);
    const bytes = Buffer.concat([fs.readFileSync(last), Buffer.alloc(1000)]);
    bytes.fill('torn', end, end + 100);
    fs.writeFileSync(last, bytes);
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([0, false]);
    expect(found(report, 'tail')).toMatchObject([
      { severity: 'warning', message: expect.stringContaining('100 bytes') as string },
    ]);
    const collector = await start(dataDir);
    expect(collector.output.stderr).toContain('moved an incomplete batch');
    expect(await collector.stop()).toBe(0);
    const [kept = ''] = fs.readdirSync(path.join(dataDir, 'ledger', 'torn'));
    expect(fs.readFileSync(path.join(dataDir, 'ledger', 'torn', kept), 'latin1')).toBe('torn'.repeat(25));
    const after = await examine();
    expect(after.code).toBe(0);
    expect(found(after.report, 'tail')).toMatchObject([{ severity: 'ok' }]);
    expect(found(after.report, 'torn tails')).toMatchObject([
      { severity: 'warning', message: expect.stringContaining('1 kept') as string },
    ]);
  });

  test('reports the last event as damaged, not torn, after an orderly end, as the start of a collector does', async () => {
    await fillSigned(dataDir, BATCHES);
    const last = segmentPaths(dataDir).at(-1) ?? '';
    flipBit(last, frameOffset(last, EVENTS, EVENTS.length) + 200);
    const { code, report } = await examine();
    expect(code).toBe(3);
    expect(found(report, 'events')).toMatchObject([
      { severity: 'damage', message: expect.stringContaining(`of event ${EVENTS.length} (`) as string },
    ]);
    const { code: start } = await run(['serve', '--port', '0', '--data-dir', dataDir]);
    expect(start).toBe(3);
    expect(fs.existsSync(path.join(dataDir, 'ledger', 'torn'))).toBe(false);
  });

  test('warns of an index that is lost or damaged, and the start of a collector rebuilds it', async () => {
    await createKey(dataDir);
    await fillSigned(dataDir, BATCHES);
    const index = path.join(dataDir, 'index');
    const spoil = {
      lost: () => fs.rmSync(index, { recursive: true }),
      damaged: () => {
        for (const name of fs.readdirSync(index)) flipBit(path.join(index, name), 4100);
      },
    };
    for (const act of Object.values(spoil)) {
      act();
      const { code, report } = await examine();
      expect(code).toBe(0);
      expect(found(report, 'id index')).toMatchObject([
        { severity: 'warning', message: expect.stringContaining('the next start rebuilds') as string },
      ]);
      const collector = await start(dataDir);
      expect(collector.output.stderr).toContain(`"replayed":${EVENTS.length}`);
      expect(await collector.stop()).toBe(0);
      expect(found((await examine()).report, 'id index')).toMatchObject([{ severity: 'ok' }]);
    }
  });

  test('reports keys that cannot be read with exit code 3', async () => {
    fs.writeFileSync(path.join(dataDir, 'keys.db'), 'not a database'.repeat(1000));
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([3, true]);
    expect(found(report, 'keys')).toMatchObject([{ severity: 'damage' }]);
  });
});

describe('on a full disk', () => {
  /** As an orderly end leaves the file; a start that failed for lack of space; a loss of power. */
  const states: readonly [string, (file: string) => void][] = [
    ['was closed', () => undefined],
    [
      'a start could not open',
      (file) => {
        for (const beside of ['-wal', '-shm']) fs.writeFileSync(file + beside, '', { mode: 0o600 });
      },
    ],
    ['lost power', (file) => fs.writeFileSync(`${file}-shm`, '', { mode: 0o600 })],
  ];

  test.skipIf(!canMount).each(states)(
    '[R-604] keys are listed and checked, and commands that must write report no space (keys.db: %s)',
    async (state, act) => {
      const key = await createKey(dataDir);
      await fillSigned(dataDir, [[EVENTS[0] ?? candidate()]]);
      const copy = scratch();
      fs.rmdirSync(copy);
      if (state === 'lost power') {
        const collector = await start(dataDir);
        await createKey(dataDir);
        fs.cpSync(dataDir, copy, { recursive: true });
        await collector.kill();
        expect(fs.statSync(path.join(copy, 'keys.db-wal')).size).toBeGreaterThan(0);
      } else fs.cpSync(dataDir, copy, { recursive: true });
      act(path.join(copy, 'keys.db'));
      const listed = await runOnFullDisk(copy, ['keys', 'list', '--json']);
      expect([listed.code, listed.stderr]).toEqual([0, '']);
      expect(listed.stdout).toContain(key.split('_')[1]);
      const examined = await runOnFullDisk(copy, ['doctor']);
      expect([examined.code, examined.stderr]).toEqual([0, '']);
      expect(examined.stdout).toMatch(/^ok +keys +\d keys? can be read$/m);
      for (const command of [
        ['serve', '--port', '0'],
        ['keys', 'create', '--permissions', 'all'],
      ]) {
        const { code, stderr } = await runOnFullDisk(copy, command);
        expect([command[0], code, stderr]).toEqual([
          command[0],
          1,
          expect.stringContaining('no space left on device'),
        ]);
        expect(stderr).not.toContain('I/O error');
      }
    },
  );
});
