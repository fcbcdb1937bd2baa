import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { parseCheckpoint } from '@clinical-events/protocol/verify';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { accessLogKey, accessLogOrigin } from '../../src/integrity/access-log-keys.js';
import {
  noteKey,
  signNote,
  verifierKeyOf,
  verifyNote,
  type NoteKey,
} from '../../src/integrity/note-signing.js';
import type { CheckpointSigner } from '../../src/integrity/signer.js';
import { AccessLogTree } from '../../src/ledger/access-log-tree.js';
import { AccessLogFile } from '../../src/store/embedded/access-log-file.js';
import { leafOf, mth } from '../integrity/rfc-tree.js';
import { MemoryDisk, type Manner, type Operation } from '../store/embedded/memory-disk.js';

const DATA = '/data';
const LOG = '/data/access.log';
const CHECKPOINT = '/data/checkpoints/access-log';
const ORIGIN = 'hospital.example/log';
const INTERVAL = 1000;

afterEach(() => void vi.useRealTimers());

/** A signer whose key can be rotated. */
class Signer implements CheckpointSigner {
  readonly origin = ORIGIN;
  keys: NoteKey[] = [];
  #privateKey = generateKeyPairSync('ed25519').privateKey;
  fails = false;

  constructor() {
    this.rotate();
  }

  rotate(): void {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    this.#privateKey = privateKey;
    this.keys = [...this.keys, noteKey(verifierKeyOf(ORIGIN, publicKey))];
  }

  sign(text: string, name = ORIGIN): Promise<string> {
    if (this.fails) return Promise.reject(new Error('the signer is away'));
    return Promise.resolve(signNote(text, [{ name, privateKey: this.#privateKey }]));
  }
}

/** A log of readings on a disk in memory, and what is told of it. */
class World {
  disk = new MemoryDisk();
  readonly signer = new Signer();
  published: string[] = [];
  troubles: string[] = [];
  altered: string[] = [];
  #tree: AccessLogTree | undefined;

  async open(hasBegun = true): Promise<void> {
    this.#tree = await AccessLogTree.open({
      store: AccessLogFile.open(DATA, this.disk.files),
      signer: this.signer,
      adoptionLine: hasBegun ? (lines) => `adopted behind ${lines}` : undefined,
      intervalMs: INTERVAL,
      onCheckpoint: (note) => this.published.push(note),
      onTrouble: (what, error) => this.troubles.push(error instanceof Error ? error.message : what),
      onAltered: (reason) => this.altered.push(reason),
    });
  }

  async close(): Promise<void> {
    await this.#tree?.close();
  }

  async again(): Promise<void> {
    await this.open();
    await this.close();
  }

  /** As a command does in a process of its own, which flushes when it comes to it. */
  append(text: string): void {
    this.write(this.text + text);
  }

  write(text: string): void {
    if (!this.disk.fileNames(DATA).includes('access.log')) {
      this.disk.files.close(this.disk.files.open(LOG, 'wx+'));
    }
    const fd = this.disk.files.open(LOG, 'r+');
    this.disk.files.truncate(fd, Buffer.byteLength(text));
    this.disk.files.write(fd, Buffer.from(text), Buffer.byteLength(text), 0);
    this.disk.files.close(fd);
  }

  get text(): string {
    return this.disk.fileNames(DATA).includes('access.log') ? this.disk.bytesOf(LOG).toString() : '';
  }

  /** What is signed, its root held against the lines. */
  signed(): number {
    const note = this.disk.bytesOf(CHECKPOINT).toString();
    const { text } = verifyNote(note, this.signer.keys.map(accessLogKey));
    const { origin, size, root } = parseCheckpoint(text);
    expect(origin).toBe(accessLogOrigin(ORIGIN));
    const lines = this.text.split('\n').slice(0, size);
    expect(Buffer.from(root).equals(mth(lines.map((line) => leafOf(Buffer.from(line)))))).toBe(true);
    return size;
  }

  sizesPublished(): number[] {
    return this.published.map((note) => Number(note.split('\n')[1]));
  }
}

describe('the tree over the readings', () => {
  test('[R-718] signs the empty log at the very first start, and all lines so far at each later one and at its end', async () => {
    const world = new World();
    await world.open(false);
    expect(world.signed()).toBe(0);
    world.append('one\ntwo\n');
    await world.close();
    expect(world.signed()).toBe(2);
    world.append('three\n');
    await world.again();
    expect(world.signed()).toBe(3);
    // The newest is given out at every start: the process before may not have come to it.
    await world.again();
    expect(world.sizesPublished()).toEqual([0, 2, 2, 3, 3]);
    expect([world.troubles, world.altered]).toEqual([[], []]);
  });

  test('[R-718] signs what came once an interval, and does nothing when nothing came', async () => {
    const world = new World();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    await world.open(false);
    const tick = async () => {
      await vi.advanceTimersByTimeAsync(INTERVAL);
      for (let i = 0; i < 20; i++) await new Promise(setImmediate);
    };
    for (let lines = 1; lines <= 3; lines++) {
      world.append(`${'x'.repeat(300_000)} ${lines}\n`);
      await tick();
      expect(world.signed()).toBe(lines);
    }
    const calls = world.disk.calls.get('replace');
    await tick();
    await tick();
    expect(world.disk.calls.get('replace')).toBe(calls);
    await world.close();
    expect(world.sizesPublished()).toEqual([0, 1, 2, 3]);
  });

  test('[R-718] takes whole lines only, and a torn one once another line begins behind it', async () => {
    const world = new World();
    await world.open(false);
    world.append('one\ntw');
    await world.close();
    expect(world.signed()).toBe(1);
    world.append('\nthree\n');
    await world.again();
    expect(world.signed()).toBe(3);
    world.append('\n');
    await world.again();
    expect(world.signed()).toBe(4);
    expect(world.altered).toEqual([]);
  });

  test('[R-718] [R-812] signs under a name of its own behind the line of a restore, and gives out nothing more in the old one', async () => {
    const world = new World();
    await world.open(false);
    world.append('one\ntwo\n');
    await world.close();
    world.append('three\n');
    world.published = [];
    const log = '0123456789abcdef';
    const root = mth(['one', 'two', 'three'].map((line) => leafOf(Buffer.from(line)))).toString('base64');
    const at = '2026-03-09T10:00:00Z';
    world.append(
      `${JSON.stringify({ at, state: 'restored', log, lines: 3, root, backup: 'b', events: 7 })}\nfive\n`,
    );
    await world.again();
    expect(world.published.map((note) => note.split('\n').slice(0, 2))).toEqual([
      [accessLogOrigin(ORIGIN, log), '5'],
    ]);
    expect([world.troubles, world.altered]).toEqual([[], []]);
  });

  test.each([
    ['altered', (text: string) => text.replace('two', 'TWO')],
    ['removed', (text: string) => text.replace('two\n', '')],
    ['put in', (text: string) => text.replace('two\n', 'two\nand a half\n')],
    ['put in another order', () => 'two\none\nthree\n'],
    ['cut off the end', (text: string) => text.replace('three\n', '')],
    ['cut within', (text: string) => text.replace('three\n', 'thr')],
    ['emptied', () => ''],
  ])('[R-718] signs nothing more once a line was %s, and keeps what it had signed', async (_how, change) => {
    const world = new World();
    await world.open(false);
    world.append('one\ntwo\nthree\n');
    await world.close();
    const before = world.disk.bytesOf(CHECKPOINT).toString();
    const whole = world.text;
    world.write(change(whole));
    world.published = [];
    await world.open();
    world.append('four\nfive\nsix\n');
    await world.close();
    expect(world.disk.bytesOf(CHECKPOINT).toString()).toBe(before);
    expect(world.published).toEqual([]);
    expect(world.altered).toEqual([expect.stringMatching(/^(the first 3 lines of )?access\.log /)]);
    expect(world.troubles).toEqual([]);
    // With the right log it goes on.
    world.write(`${whole}four\n`);
    await world.again();
    expect(world.signed()).toBe(4);
  });

  test('[R-718] never signs for a line that is changed while it runs, and tells of a log that becomes shorter or is moved', async () => {
    for (const [change, told] of [
      [(text: string) => text.replace('one', 'ONE'), []],
      [(text: string) => text.replace('one', 'longer'), [expect.stringContaining('was changed among')]],
      [() => '', [expect.stringContaining('shorter than it was')]],
    ] as const) {
      const world = new World();
      await world.open(false);
      world.append('one\ntwo\n');
      await world.close();
      await world.open();
      await vi.waitFor(() => expect(world.sizesPublished()).toEqual([0, 2, 2]));
      const whole = world.text;
      world.write(change(whole) + (told.length === 1 && change(whole) === '' ? '' : 'three\n'));
      await world.close();
      expect(world.altered).toEqual(told);
      // What it has signed is true of what there was.
      world.write(`${whole}three\n`);
      expect(world.signed()).toBe(told.length === 0 ? 3 : 2);
    }
  });

  test.each([
    ['of the events', (signer: Signer, text: string) => signer.sign(text)],
    ['of nobody', (_signer: Signer, text: string) => new Signer().sign(text, accessLogOrigin(ORIGIN))],
    ['changed', (_signer: Signer, text: string) => Promise.resolve(text)],
  ])('[R-718] signs nothing where its checkpoint is one %s', async (_whose, forge) => {
    const world = new World();
    await world.open(false);
    world.append('one\n');
    await world.close();
    const note = world.disk.bytesOf(CHECKPOINT).toString();
    const text = note.slice(0, note.indexOf('\n\n') + 1);
    const forged = await forge(world.signer, text.replace('/access-log', ''));
    world.disk.put(CHECKPOINT, Buffer.from(forged));
    await world.again();
    expect(world.altered).toEqual([
      expect.stringMatching(/^checkpoints\/access-log is not a checkpoint of this access log: /),
    ]);
    expect(world.disk.bytesOf(CHECKPOINT).toString()).toBe(forged);
  });

  test.each([
    ['as an older collector leaves it', 'one\ntwo\n', 2],
    ['torn at its end', 'one\ntw', 1],
    ['gone as well', undefined, 0],
  ])(
    '[R-718] a log whose checkpoint is missing, %s, is signed with a line behind it that says so, once',
    async (_how, text, lines) => {
      const world = new World();
      if (text !== undefined) world.write(text);
      await world.again();
      const before = text === undefined || text.endsWith('\n') ? (text ?? '') : `${text}\n`;
      expect(world.text).toBe(`${before}adopted behind ${lines}\n`);
      expect(world.signed()).toBe(before.split('\n').length);
      expect(world.troubles).toEqual([
        `access.log had no checkpoint: nothing proves its ${lines} lines from before, and a line there says so`,
      ]);
      await world.again();
      expect(world.text).toBe(`${before}adopted behind ${lines}\n`);
    },
  );

  test('[R-718] signs no log whose checkpoint is missing before the line that says so stands in it', async () => {
    const world = new World();
    world.write('one\ntwo\n');
    world.disk.fail('appendLine', 1, 'partly', true);
    await world.again();
    expect(world.disk.fileNames('/data/checkpoints')).toEqual([]);
    expect(new Set(world.troubles)).toEqual(new Set(['appendLine failed partly it was done']));
    world.disk.heal();
    world.signer.fails = true;
    await world.again();
    world.signer.fails = false;
    await world.again();
    expect(world.text).toMatch(/^one\ntwo\n(adopted \n){2}(adopted behind \d\n){2}$/);
    expect(world.signed()).toBe(6);
  });

  test('[R-718] goes on over a rotation of the key', async () => {
    const world = new World();
    await world.open(false);
    world.append('one\n');
    await world.close();
    await world.open();
    world.signer.rotate();
    world.append('two\n');
    await world.close();
    expect(world.signed()).toBe(2);
    await world.again();
    expect(world.sizesPublished()).toEqual([0, 1, 1, 1, 2, 2]);
    // Also when nobody has read since: once.
    world.signer.rotate();
    await world.again();
    const note = world.disk.bytesOf(CHECKPOINT).toString();
    expect(verifyNote(note, world.signer.keys.slice(-1).map(accessLogKey)).signedBy).toHaveLength(1);
    await world.again();
    expect(world.sizesPublished().slice(6)).toEqual([2, 2, 2]);
    expect([world.troubles, world.altered]).toEqual([[], []]);
  });

  test('[R-718] a signer that is away is told of, and what came meanwhile is signed when it is back', async () => {
    const world = new World();
    await world.open(false);
    world.signer.fails = true;
    world.append('one\n');
    await world.close();
    expect(world.troubles).toEqual(['the signer is away']);
    expect(world.signed()).toBe(0);
    world.signer.fails = false;
    await world.again();
    expect(world.signed()).toBe(1);
  });

  test('[R-718] where there is no room for the checkpoint the one before stays, and trouble is told', async () => {
    const world = new World();
    await world.open(false);
    world.append('one\n');
    world.disk.fail('replace', 1, 'before', true);
    await world.close();
    expect(world.troubles).toEqual(['replace failed before it was done']);
    expect(world.signed()).toBe(0);
    world.disk.heal();
    await world.again();
    expect(world.signed()).toBe(1);
  });

  const operation = fc.constantFrom<Operation>(
    ...(['open', 'close', 'size', 'read', 'syncDirectory', 'datasyncLater', 'replace'] as const),
  );
  const manner = fc.constantFrom<Manner>('before', 'partly', 'after');

  test('[R-718] whatever call fails and whenever power is lost, what is signed is there', async () => {
    const step = fc.record({
      lines: fc.nat(3),
      fault: fc.option(fc.tuple(operation, fc.integer({ min: 1, max: 4 }), manner)),
      end: fc.constantFrom('power', 'kill', 'order'),
      picked: fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
        const world = new World();
        let number = 0;
        await world.open(false);
        for (const { lines, fault, end, picked } of steps) {
          // A command begins on a line of its own.
          if (world.text !== '' && !world.text.endsWith('\n')) world.append('\n');
          for (let i = 0; i < lines; i++) world.append(`line ${number++}\n`);
          if (fault !== null) world.disk.fail(...fault);
          await world.close();
          const lost = world.disk.heal() && fault?.[0] === 'datasyncLater';
          // What a failed flush has lost nobody can know of: the log is whole as long as the machine has power.
          if (lost) world.write(world.text);
          if (end === 'kill') world.disk = world.disk.afterKill();
          let pick = 0;
          if (end === 'power') world.disk = world.disk.afterPowerLoss(() => picked[pick++ % 8] ?? false);
          if (world.disk.fileNames('/data/checkpoints').includes('access-log')) world.signed();
          await world.open();
        }
        await world.close();
        expect(world.altered).toEqual([]);
        expect(world.signed()).toBe(world.text.split('\n').length - 1);
      }),
      { numRuns: 300 },
    );
  });
});
