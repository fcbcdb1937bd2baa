/** Back-ups whose end was cut by a full disk, and what a restoration does with them. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { random, runs } from '../../../../test/property-runs.js';
import { commandOf } from '../../src/commands/command-line.js';
import { command } from '../../src/commands/restore.js';
import { openStore } from '../../src/store/open-to-read.js';
import { fillSigned, firstKey, loggedEvent } from '../commands/signed-directory.js';
import { framesIn } from '../commands/tampering.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { encryptionIn, flipBit, segmentPaths } from '../store/embedded/filled-directory.js';
import { round } from './round.js';

const HEADER_BYTES = 80;

interface Restored {
  readonly code: number;
  readonly stdout: string;
}

interface Told {
  readonly restored: boolean;
  readonly missing: { readonly first: number; readonly last: number; readonly entries: number } | null;
  readonly verified: { readonly entries: number; readonly unsigned_entries: number };
}

async function restore(backup: string, target: string, ...args: readonly string[]): Promise<Restored> {
  let stdout = '';
  const printed = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += String(text);
    return true;
  });
  try {
    await commandOf(command).parseAsync([backup, '--data-dir', target, ...args], { from: 'user' });
    return { code: Number(process.exitCode), stdout };
  } finally {
    printed.mockRestore();
    process.exitCode = undefined;
  }
}

async function sequencesIn(dataDir: string): Promise<number[]> {
  const { events } = openStore(dataDir);
  const found: number[] = [];
  for await (const batch of events.entries()) for (const { sequence } of batch) found.push(sequence);
  await events.close();
  return found;
}

const cutTo = (file: string, bytes: number) => () => fs.truncateSync(file, bytes);

describe.each([
  ['plain', false],
  ['encrypted', true],
])('[R-812] a back-up of a log that is %s, and whose end was cut', (_, isEncrypted) => {
  let scratch: string;
  let whole: string;
  let backup: string;
  let target: string;
  let given: readonly string[];
  /** Signed when the back-up was made, and after it. */
  let [size, later] = [0, 0];

  beforeAll(async () => {
    scratch = temporaryDirectory();
    const dataDir = path.join(scratch, 'data');
    const checkpoints = path.join(scratch, 'checkpoints');
    whole = path.join(scratch, 'whole');
    const signed = async (count: number) => {
      const events = Array.from({ length: count }, () => loggedEvent('x'.repeat(900)));
      await fillSigned(dataDir, [events], isEncrypted ? { encryption: encryptionIn(dataDir) } : {});
      const note = fs.readFileSync(path.join(dataDir, 'checkpoints', 'latest'), 'utf8');
      fs.appendFileSync(checkpoints, `${note}\n`);
      return Number(note.split('\n')[1]);
    };
    for (const count of [70, 40, 40]) size = await signed(count);
    await round(dataDir, whole);
    later = await signed(5);
    given = ['--against', checkpoints, '--key', firstKey(dataDir), '--json'];
    return () => fs.rmSync(scratch, { recursive: true, force: true });
  });

  beforeEach(() => {
    [backup, target] = [path.join(scratch, 'backup'), path.join(scratch, 'target')];
    fs.cpSync(whole, backup, { recursive: true });
    onTestFinished(() => {
      for (const each of [backup, target]) fs.rmSync(each, { recursive: true, force: true });
    });
  });

  const again = () => {
    for (const each of [backup, target]) fs.rmSync(each, { recursive: true, force: true });
    fs.cpSync(whole, backup, { recursive: true });
  };

  /** The places where a cut of the last segment differs, and how many whole frames each leaves in it. */
  function cuts(segment: string): [bytes: number, frames: number][] {
    let end = HEADER_BYTES;
    const ends = framesIn(segment).map((frame) => (end += frame.length));
    const others = Array.from({ length: runs(20) }, () => random.below(end));
    const places = [
      ...[0, 1, 63, 64, 65, 79, 80, 81],
      ...ends.slice(0, -1).flatMap((at) => [at - 1, at, at + 1]),
      ...others,
    ];
    return places.map((bytes) => [bytes, ends.filter((at) => at <= bytes).length]);
  }

  test('is restored up to its last whole event, and the missing part is reported', async () => {
    const [last = ''] = segmentPaths(backup).slice(-1);
    const first = Number.parseInt(path.basename(last), 10);
    for (const [bytes, frames] of cuts(last)) {
      again();
      cutTo(last, bytes)();
      const { code, stdout } = await restore(backup, target, ...given);
      const told = JSON.parse(stdout) as Told;
      const entries = first - 1 + frames;
      expect([code, told.restored, told.verified.entries], `cut to ${bytes} bytes: ${stdout}`).toEqual([
        7,
        true,
        entries,
      ]);
      expect(told.missing).toEqual({ first: entries + 1, last: later, entries: later - entries });
      expect((await sequencesIn(target)).length).toBe(entries);
    }
  }, 120_000);

  test('that lacks its last segment is restored, and what a checkpoint proves is counted separately', async () => {
    const [last = ''] = segmentPaths(backup).slice(-1);
    fs.rmSync(last);
    const { code, stdout } = await restore(backup, target, ...given);
    const entries = Number.parseInt(path.basename(last), 10) - 1;
    expect(code).toBe(7);
    const { verified } = JSON.parse(stdout) as Told;
    expect(verified.entries - verified.unsigned_entries).toBeGreaterThan(0);
    expect(verified.entries).toBe(entries);
  });

  test('is compared with its own checkpoint, where the given ones cover less', async () => {
    const [last = ''] = segmentPaths(backup).slice(-1);
    cutTo(last, fs.statSync(last).size - 100)();
    const older = path.join(scratch, 'older');
    const text = fs.readFileSync(given[1] ?? '', 'utf8');
    fs.writeFileSync(older, text.slice(0, text.indexOf('\n\n', text.indexOf('\n\n') + 2) + 1));
    const { code, stdout } = await restore(backup, target, '--against', older, '--json');
    expect([code, (JSON.parse(stdout) as Told).missing?.last]).toEqual([7, size]);
  });

  test('is refused without checkpoints from elsewhere, with the option that would help', async () => {
    const [last = ''] = segmentPaths(backup).slice(-1);
    cutTo(last, fs.statSync(last).size - 100)();
    const { code, stdout } = await restore(backup, target);
    expect([code, stdout]).toEqual([3, expect.stringContaining('--against FILE')]);
    expect(fs.existsSync(target)).toBe(false);
  });

  test('is refused where the damage is not at its end', async () => {
    const [one = '', two = ''] = segmentPaths(whole).map((file) => file.replace(whole, backup));
    const last = segmentPaths(whole).at(-1)?.replace(whole, backup) ?? '';
    const damages: [what: string, damage: () => void][] = [
      ['the first segment is cut', cutTo(one, 5000)],
      ['one in the middle is cut', cutTo(two, 5000)],
      ['one in the middle is cut in its header', cutTo(two, 30)],
      ['one in the middle is missing', () => fs.rmSync(two)],
      ['the first segment is missing', () => fs.rmSync(one)],
      ['a byte has changed in front of whole events', () => flipBit(last, 200)],
      ['a header has changed', () => flipBit(last, 30)],
      [
        'nothing is left',
        () =>
          segmentPaths(backup).forEach((file, i) => (i === 0 ? fs.truncateSync(file, 70) : fs.rmSync(file))),
      ],
    ];
    expect(segmentPaths(whole).length).toBeGreaterThan(2);
    for (const [what, damage] of damages) {
      again();
      damage();
      const { code } = await restore(backup, target, ...given);
      expect(code, what).toBe(3);
      expect(fs.existsSync(target), what).toBe(false);
    }
  });
});
