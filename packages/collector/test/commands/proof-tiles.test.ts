import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { exportTiles } from '../../src/commands/tiles.js';
import { openStore } from '../../src/store/open-to-read.js';
import {
  createKey,
  launch,
  outcomeEvent,
  run,
  start,
  temporaryDirectory,
} from '../running/collector-process.js';
import { post } from '../running/load.js';
import { candidate, envelopeOf, idOf, type Made } from '../store/candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from '../store/embedded/filled-directory.js';
import { IndependentReader } from './independent-reader.js';
import { verifyIndependently } from './independent-verifier.js';
import { fillSigned, firstKey, ORIGIN } from './signed-directory.js';

let dataDir: string;
let target: string;

beforeEach(() => {
  const scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
  dataDir = path.join(scratch, 'data');
  target = path.join(scratch, 'log');
});

function events(count: number): Made[] {
  return Array.from({ length: count }, (_, i) =>
    candidate({ organisation: 'ward-of-secrets', keyId: 'keyofsecrets', body: { i, text: 'a secret' } }),
  );
}

function batches(count: number): Made[][] {
  return Array.from({ length: Math.ceil(count / 1000) }, (_, i) => events(Math.min(1000, count - i * 1000)));
}

async function exported(directory = target, onProgress: (events: number) => void = () => undefined) {
  const { tree, events: log } = openStore(dataDir);
  try {
    return await exportTiles({ dataDir, tree, events: log }, directory, onProgress);
  } finally {
    await tree.close();
    await log.close();
  }
}

/** The names of all files below a directory. */
function filesIn(directory: string): string[] {
  return fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .sort();
}

/** Reads the whole directory by the standard alone. @returns for how many events. */
function readWhole(directory = target): number {
  const reader = new IndependentReader(directory, firstKey(dataDir));
  const { size, root } = reader;
  expect({ size, root: reader.rootFromEntries() }).toEqual({ size, root });
  expect({ size, root: reader.rootFromLevel0() }).toEqual({ size, root });
  expect({ size, root: reader.rootFromTop() }).toEqual({ size, root });
  return size;
}

function tiles(...args: readonly string[]) {
  return run(['proof', '--tiles', target, '--data-dir', dataDir, ...args]);
}

const SIZES = [0, 1, 2, 255, 256, 257, 511, 512, 1000, 1024];

describe('[R-908] an exported directory', () => {
  test(`is read by an independent reader, at ${SIZES.join(', ')} events, new or continued from the size before`, async () => {
    const grown = `${target}-grown`;
    let size = 0;
    for (const next of SIZES) {
      await fillSigned(dataDir, [events(next - size)]);
      size = next;
      const fresh = `${target}-${size}`;
      await exported(fresh);
      expect(readWhole(fresh)).toBe(size);
      expect(filesIn(fresh)).toEqual(new IndependentReader(fresh, firstKey(dataDir)).needed());
      await exported(grown);
      expect(readWhole(grown)).toBe(size);
      expect(filesIn(grown)).toEqual(expect.arrayContaining(filesIn(fresh)));
    }
    // Two partial tiles that no full one has replaced, and the entries of each.
    const older = filesIn(grown).filter((name) => !filesIn(`${target}-1024`).includes(name));
    expect(older.filter((name) => !/^tile\/[12]\/000\.p\//.test(name))).toEqual([]);
  });

  test('is read at 66,000 events, three levels high', async () => {
    await fillSigned(dataDir, batches(66_000), { segmentBytes: 16 << 20 });
    const { code, stdout, stderr } = await tiles();
    expect([code, stderr, stdout]).toEqual([
      ...[0, ''],
      `${target} holds the tiles of 66000 entries of ${ORIGIN}. 519 files written.\n`,
    ]);
    expect(readWhole()).toBe(66_000);
    expect(filesIn(target)).toEqual(new IndependentReader(target, firstKey(dataDir)).needed());
    expect(fs.existsSync(path.join(target, 'tile', '2', '000.p', '1'))).toBe(true);
  });

  test('has leaves for entries, and nothing of what was sent or by whom', async () => {
    const stored = events(300);
    await fillSigned(dataDir, [stored]);
    await exported();
    const entries = new IndependentReader(target, firstKey(dataDir)).entries();
    for (const [i, event] of stored.entries()) {
      const time = Buffer.alloc(8);
      time.writeBigUInt64BE(BigInt(event.receivedAt));
      const leaf = Buffer.concat([
        Buffer.of(1),
        time,
        hash('sha256', envelopeOf(event), 'buffer'),
        event.commitment,
      ]);
      expect(entries[i]?.equals(leaf)).toBe(true);
    }
    const all = Buffer.concat(filesIn(target).map((name) => fs.readFileSync(path.join(target, name))));
    expect(all.includes('secret')).toBe(false);
    expect(stored.filter(({ eventId }) => all.includes(Buffer.from(eventId)))).toEqual([]);
    expect(stored.filter(({ body }) => all.includes(hash('sha256', body, 'buffer')))).toEqual([]);
  });
});

describe('[R-908] an export that is continued', () => {
  test('writes only what is new, removes the partial tiles that are full now, and keeps the others', async () => {
    await fillSigned(dataDir, [events(700)]);
    expect(await exported()).toMatchObject({ before: 0, written: 7 });
    expect(await exported()).toMatchObject({ before: 700, written: 0 });
    const unchanged = fs.statSync(path.join(target, 'tile', '0', '000')).mtimeMs;
    await fillSigned(dataDir, [events(30)]);
    expect(await exported()).toMatchObject({ before: 700, written: 2 });
    expect(filesIn(target).filter((name) => name.startsWith('tile/0/'))).toEqual([
      ...['tile/0/000', 'tile/0/001', 'tile/0/002.p/188', 'tile/0/002.p/218'],
    ]);
    await fillSigned(dataDir, [events(100)]);
    // The full tile, the partial one after it, entries of both, and level 1.
    expect(await exported()).toMatchObject({ before: 730, written: 5 });
    expect(filesIn(target)).toEqual(
      [...new IndependentReader(target, firstKey(dataDir)).needed(), 'tile/1/000.p/2'].sort(),
    );
    expect(fs.statSync(path.join(target, 'tile', '0', '000')).mtimeMs).toBe(unchanged);
    expect(readWhole()).toBe(830);
  });

  test('writes files again that are missing or have the wrong size', async () => {
    await fillSigned(dataDir, batches(2000));
    await exported();
    const file = (name: string) => path.join(target, name);
    fs.rmSync(file('tile/0/002'));
    fs.truncateSync(file('tile/entries/004'), 100);
    fs.rmSync(file('tile/1'), { recursive: true });
    expect((await exported()).written).toBe(3);
    expect(readWhole()).toBe(2000);
  });

  test('has a checkpoint and all files of that checkpoint at any time', async () => {
    await fillSigned(dataDir, batches(1500));
    await exported();
    await fillSigned(dataDir, batches(3000));
    const seen = new Set<number>();
    await exported(target, () => seen.add(readWhole()));
    expect([[...seen], readWhole()]).toEqual([[1500], 4500]);
  });

  test('continues after an interruption, with or without an earlier export, and leaves no half-written file', async () => {
    const stop = (at: number) => (exportedSoFar: number) => {
      if (exportedSoFar >= at) throw new Error('interrupted');
    };
    await fillSigned(dataDir, batches(3000));
    await expect(exported(target, stop(1000))).rejects.toThrow('interrupted');
    expect(fs.readdirSync(target)).toEqual(['tile']);
    expect((await exported()).written).toBeLessThan(20);
    expect(readWhole()).toBe(3000);
    await fillSigned(dataDir, batches(1000));
    await expect(exported(target, stop(3500))).rejects.toThrow('interrupted');
    expect(readWhole()).toBe(3000);
    await exported();
    expect([readWhole(), fs.readdirSync(target)]).toEqual([4000, ['checkpoint', 'tile']]);
  });

  test('continues after kill -9 at any time', async () => {
    await fillSigned(dataDir, batches(40_000), { segmentBytes: 16 << 20 });
    let killed = 0;
    for (let i = 0; i < 6; i++) {
      const { process: child, exited } = launch(['proof', '--tiles', target, '--data-dir', dataDir]);
      await Promise.race([exited, sleep(150 + 40 * i)]);
      child.kill('SIGKILL');
      if ((await exited) === null) killed++;
      if (fs.existsSync(path.join(target, 'checkpoint'))) expect(readWhole()).toBe(40_000);
    }
    expect(killed).toBeGreaterThan(0);
    expect((await tiles()).code).toBe(0);
    expect(readWhole()).toBe(40_000);
    expect(filesIn(target)).toEqual(new IndependentReader(target, firstKey(dataDir)).needed());
  });
});

describe('[R-908] an export is refused, and leaves the existing checkpoint,', () => {
  async function refused(code: number, message: string | RegExp): Promise<void> {
    const checkpoint = path.join(target, 'checkpoint');
    const before = fs.existsSync(checkpoint) ? fs.readFileSync(checkpoint, 'utf8') : undefined;
    const ended = await tiles();
    expect([ended.code, ended.stdout]).toEqual([code, '']);
    expect(ended.stderr).toMatch(/^collector: [^\n]*\n$/);
    expect(ended.stderr).toEqual(expect.stringMatching(message));
    expect(fs.existsSync(checkpoint) ? fs.readFileSync(checkpoint, 'utf8') : undefined).toBe(before);
  }

  test('when the directory is that of another log', async () => {
    await fillSigned(dataDir, [events(300)], { origin: 'log.example/other' });
    await exported();
    fs.rmSync(dataDir, { recursive: true });
    await fillSigned(dataDir, [events(300)]);
    const files = filesIn(target);
    await refused(
      2,
      `${target} holds the tiles of another log: its checkpoint is not one of ${ORIGIN} (none of the known`.replace(
        /[().]/g,
        '\\$&',
      ),
    );
    expect(filesIn(target)).toEqual(files);
  });

  test('when the directory holds something else, or is a file', async () => {
    await fillSigned(dataDir, [events(3)]);
    fs.mkdirSync(target);
    fs.writeFileSync(path.join(target, 'thesis.doc'), 'x');
    await refused(2, / holds thesis\.doc and no tiles; .*\bempty\b.* directory\n$/);
    expect(filesIn(target)).toEqual(['thesis.doc']);
    fs.rmSync(target, { recursive: true });
    fs.writeFileSync(target, 'x');
    await refused(2, / is not a directory\n$/);
  });

  test('when the log was restored from an older back-up, or continued from one', async () => {
    await fillSigned(dataDir, [events(300)]);
    fs.cpSync(dataDir, `${dataDir}-then`, { recursive: true });
    await fillSigned(dataDir, [events(100)]);
    await exported();
    fs.rmSync(dataDir, { recursive: true });
    fs.renameSync(`${dataDir}-then`, dataDir);
    await refused(
      3,
      / holds the tiles of 400 entries of this log, .* checkpoint covers only 300: .*\btruncated\b/,
    );
    await fillSigned(dataDir, [events(200)]);
    await refused(3, / holds the tiles of 400 entries that are not the first 400 of this log: .*\baltered\b/);
  });

  test.each(['tile/0/001.p/44', 'tile/entries/001.p/44', 'tile/1/000.p/1'])(
    'when %s, at the end of the earlier export, was changed',
    async (name) => {
      await fillSigned(dataDir, [events(300)]);
      await exported();
      await fillSigned(dataDir, [events(300)]);
      flipBit(path.join(target, name), 17);
      await refused(
        3,
        new RegExp(`/${name} differs from this log: it was changed; .*\\bempty directory\\n$`),
      );
    },
  );

  test('when a hash of the tree has changed, and names the event', async () => {
    const stored = events(600);
    await fillSigned(dataDir, [stored]);
    flipBit(path.join(dataDir, 'tree', 'level-0'), 32 * 299 + 5);
    await refused(
      3,
      new RegExp(
        `event 300 \\(${idOf(stored[299] as Made)}\\) does not have the hash that the tree has for it; see collector verify --data-dir`,
      ),
    );
  });

  test('when a hash of a higher level has changed', async () => {
    await fillSigned(dataDir, [events(600)]);
    flipBit(path.join(dataDir, 'tree', 'level-1'), 32 + 5);
    await refused(
      3,
      /hash 1 of level 1 of the tree does not follow from its events; see collector verify --data-dir \S+\n$/,
    );
  });

  test('when a part of the tree is missing', async () => {
    await fillSigned(dataDir, [events(600)]);
    fs.truncateSync(path.join(dataDir, 'tree', 'level-0'), 32 * 520);
    await refused(
      3,
      /the tree lacks some of the 88 hashes from number 512 of level 0; see collector verify --data-dir \S+\n$/,
    );
  });

  test('when the events and their tree are not those that were signed', async () => {
    const other = `${dataDir}-other`;
    await fillSigned(other, [events(600)]);
    await fillSigned(dataDir, [events(600)]);
    for (const name of ['ledger', 'tree']) {
      fs.rmSync(path.join(dataDir, name), { recursive: true });
      fs.cpSync(path.join(other, name), path.join(dataDir, name), { recursive: true });
    }
    await refused(
      3,
      /the tree does not lead to the root of the checkpoint over 600 entries; see collector verify --data-dir \S+\n$/,
    );
  });

  test('when an event cannot be read, or the end of the log is gone', async () => {
    const stored = events(600);
    await fillSigned(dataDir, [stored.slice(0, 300), stored.slice(300)]);
    const [segment = ''] = segmentPaths(dataDir);
    const last = segmentPaths(dataDir).at(-1) ?? '';
    fs.truncateSync(last, frameOffset(last, stored, 590));
    await refused(
      3,
      / read up to entry 589 only, .* checkpoint covers 600 entries; see collector verify --data-dir \S+\n$/,
    );
    flipBit(segment, frameOffset(segment, stored, 5) + 100);
    await refused(3, /, event 5: the frame is damaged\n$/);
  });

  test('when the checkpoint is not one of this log', async () => {
    await fillSigned(dataDir, [events(3)]);
    fs.truncateSync(path.join(dataDir, 'checkpoints', 'latest'), 40);
    await refused(
      3,
      /checkpoints\/latest is not a checkpoint of this log: .*; see collector verify --data-dir \S+\n$/,
    );
    expect(fs.existsSync(target)).toBe(false);
  });

  test('when nothing is signed yet, or there is no ledger', async () => {
    await refused(6, / holds no ledger; .*--data-dir\n$/);
    await fillDirectory(dataDir, [events(3)]);
    await refused(1, /nothing is signed in .* yet: .*\bcollector\b.*\bstarts\n$/);
    expect(fs.existsSync(target)).toBe(false);
  });
});

test('[R-908] beside a collector under load, proofs hold and each export is whole', async () => {
  const key = await createKey(dataDir);
  const collector = await start(dataDir, ['--checkpoint-interval-ms', '100']);
  onTestFinished(() => collector.kill());
  const sent: { readonly id: string; readonly body: string }[] = [];
  let stopped = false;
  const send = async () => {
    const event = outcomeEvent();
    const body = JSON.stringify(event);
    await post(collector.port, key, body);
    sent.push({ id: event.event_id, body });
  };
  const senders = Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!stopped) await send();
    }),
  );
  await send();
  for (let i = 0; i < 4; i++) {
    const { id = '', body = '' } = sent.at(-1) ?? {};
    const proof = await run(['proof', id, '--data-dir', dataDir]);
    expect([proof.code, proof.stderr]).toEqual([0, '']);
    verifyIndependently(proof.stdout, Buffer.from(body), firstKey(dataDir));
    expect(await tiles()).toMatchObject({ code: 0, stderr: '' });
    expect(readWhole()).toBeGreaterThan(0);
  }
  stopped = true;
  await senders;
  expect(await collector.stop()).toBe(0);
});

describe('[R-908] collector proof --tiles', () => {
  test('comes with JSON for scripts, and is logged as an access', async () => {
    await fillSigned(dataDir, [events(300)]);
    const { code, stdout, stderr } = await tiles('--json');
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toEqual({
      ...{ directory: target, origin: ORIGIN, tree_size: 300, tree_size_before: 0, files_written: 5 },
    });
    const lines = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { state: 'begun', command: 'proof', filter: { tiles: target } },
      { state: 'ended', command: 'proof', events: 300, complete: true },
    ]);
    const again = await tiles();
    expect(again.stdout).toContain(`${target} holds the tiles of 300 entries of ${ORIGIN}, 300 of which`);
    expect(again.stdout).toContain('. 0 files written.\n');
  });

  test('without a directory, or with arguments for one event, is refused with exit code 2', async () => {
    const id = '00000000-0000-4000-8000-000000000000';
    for (const more of [[], ['--tiles'], ['--tiles', target, id], ['--tiles', target, '--out', target]]) {
      const { code, stderr } = await run(['proof', ...more, '--data-dir', dataDir]);
      expect([more, code, stderr]).toEqual([
        more,
        2,
        expect.stringMatching(/^collector: [^\n]*--tiles[^\n]*\n$/),
      ]);
    }
    expect(fs.existsSync(target)).toBe(false);
  });
});
