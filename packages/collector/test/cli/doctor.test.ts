import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createKey, run, start, temporaryDirectory } from '../running/collector-process.js';
import { candidate } from '../store/candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from '../store/embedded/filled-directory.js';

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

/** Every file below the directory, with its content. */
function contents(directory: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const entry of fs.readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (entry.isFile()) files.set(file, fs.readFileSync(file).toString('base64'));
  }
  return files;
}

describe('collector doctor', () => {
  test('[R-703] finds nothing wrong with a sound directory, for people and for scripts, and changes nothing', async () => {
    await createKey(dataDir);
    await fillDirectory(dataDir, BATCHES);
    const before = contents(dataDir);
    const { code, stdout, stderr } = await run(['doctor', '--data-dir', dataDir]);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^ +CHECKED +FOUND$/m);
    expect(stdout).toMatch(/^ok +events +300 in \d+ segments, each checked$/m);
    expect(stdout).toMatch(/^ok +keys +1 can be read$/m);
    expect(stdout).not.toMatch(/DAMAGED/);
    const { code: again, report } = await examine();
    expect([again, report.damaged, report.data_dir]).toEqual([0, false, dataDir]);
    expect(found(report, 'tail')).toEqual([
      { severity: 'ok', subject: 'tail', message: 'ends behind a whole event' },
    ]);
    expect(found(report, 'id index')).toMatchObject([{ severity: 'ok' }]);
    expect(found(report, 'lock')).toMatchObject([{ message: 'no collector is running on it' }]);
    const after = contents(dataDir);
    expect([...after.keys()].filter((file) => path.basename(file) !== 'lock')).toEqual([...before.keys()]);
    for (const [file, bytes] of before) expect(after.get(file) === bytes, file).toBe(true);
  });

  test('says that there is no such directory with exit code 6, and that nothing has run in an empty one', async () => {
    expect(await run(['doctor', '--data-dir', path.join(dataDir, 'no')])).toEqual({
      ...{ code: 6, stdout: '' },
      stderr: `collector: there is no directory ${path.join(dataDir, 'no')}\n`,
    });
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([0, false]);
    expect(found(report, 'events')).toMatchObject([{ message: 'none yet: no collector has run here' }]);
    expect(found(report, 'keys')).toMatchObject([{ severity: 'warning' }]);
  });

  test('sees a collector that is running, and warns of a directory that others can enter', async () => {
    const collector = await start(dataDir);
    onTestFinished(() => collector.kill());
    fs.chmodSync(dataDir, 0o755);
    const { code, report } = await examine();
    expect(code).toBe(0);
    expect(found(report, 'lock')).toMatchObject([{ message: 'a collector is running on it' }]);
    expect(found(report, 'directory')).toMatchObject([{ severity: 'warning' }]);
    expect(await collector.stop()).toBe(0);
  });

  test('[R-703] tells the file, the offset and the event of a flipped bit in any segment, with exit code 3', async () => {
    await fillDirectory(dataDir, BATCHES);
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
          message:
            `a frame does not hold what was written in ${path.basename(segment)} at byte ${offset}, ` +
            `where event ${sequence} is due; ${sequence - 1} events before it are whole`,
        },
      ]);
      const human = await run(['doctor', '--data-dir', dataDir]);
      expect(human.code).toBe(3);
      expect(human.stdout).toMatch(/^DAMAGED +events +a frame/m);
      for (const [file, bytes] of before) {
        if (path.basename(file) !== 'lock') {
          expect(fs.readFileSync(file).toString('base64') === bytes, file).toBe(true);
        }
      }
      flipBit(segment, offset + 300);
    }
    expect((await examine()).code).toBe(0);
  });

  test('tells of a missing, a foreign and a damaged segment with exit code 3, as the start of a collector does', async () => {
    await fillDirectory(dataDir, BATCHES);
    const [first = '', second = '', third = ''] = segmentPaths(dataDir);
    const whole = new Map([first, second, third].map((file) => [file, fs.readFileSync(file)]));
    const spoil: [string, () => void][] = [
      [second, () => fs.rmSync(first)],
      [third, () => fs.rmSync(second)],
      [second, () => flipBit(second, 45)],
      [third, () => fs.truncateSync(second, 5000)],
    ];
    for (const [file, act] of spoil) {
      act();
      const { code, report } = await examine();
      expect([code, report.damaged]).toEqual([3, true]);
      const start = await run(['serve', '--port', '0', '--data-dir', dataDir]);
      expect(start.code).toBe(3);
      expect(start.stderr).toContain(path.basename(file));
      expect(start.stderr).toContain('Nothing was changed; see collector doctor');
      for (const [name, bytes] of whole) fs.writeFileSync(name, bytes);
    }
    expect((await examine()).code).toBe(0);
  });

  test('warns of a torn tail and of those that were kept, and a collector that starts keeps it and says so', async () => {
    await fillDirectory(dataDir, BATCHES);
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
    expect(collector.output.stderr).toContain('they were moved aside');
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

  test('takes the last event for damaged, not for torn, after an orderly end, and so does the start of a collector', async () => {
    await fillDirectory(dataDir, BATCHES);
    const last = segmentPaths(dataDir).at(-1) ?? '';
    flipBit(last, frameOffset(last, EVENTS, EVENTS.length) + 200);
    const { code, report } = await examine();
    expect(code).toBe(3);
    expect(found(report, 'id index')).toMatchObject([
      {
        severity: 'damage',
        message: expect.stringContaining(`where event ${EVENTS.length} is due`) as string,
      },
    ]);
    const { code: start } = await run(['serve', '--port', '0', '--data-dir', dataDir]);
    expect(start).toBe(3);
    expect(fs.existsSync(path.join(dataDir, 'ledger', 'torn'))).toBe(false);
  });

  test('warns of an index that is lost or damaged, and a collector that starts rebuilds it', async () => {
    await fillDirectory(dataDir, BATCHES);
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

  test('tells of keys that cannot be read with exit code 3', async () => {
    fs.writeFileSync(path.join(dataDir, 'keys.db'), 'not a database'.repeat(1000));
    const { code, report } = await examine();
    expect([code, report.damaged]).toEqual([3, true]);
    expect(found(report, 'keys')).toMatchObject([{ severity: 'damage' }]);
  });
});
