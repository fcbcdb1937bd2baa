import { describe, expect, test } from 'vitest';
import { crc32 } from 'node:zlib';
import { encodeMarks } from '../../src/spool/segment.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { MemoryDisk } from './memory-disk.js';
import { read, ROOT, segmentWith, textOf } from './spooled-segments.js';

const TEXTS = ['first', 'the second event', 'third', 'the fourth one, the last'];
const HEADER = 64;
const FRAME = 32;
/** Where the frame of each event begins, and where the last one ends. */
const STARTS = [HEADER];
for (const text of TEXTS) STARTS.push((STARTS.at(-1) as number) + FRAME + text.length);
const END = STARTS[TEXTS.length] as number;

describe('a torn tail', () => {
  test.each(['closed', 'killed'] as const)(
    '[R-851] at each byte of a %s segment loses only the events that are cut',
    async (how) => {
      const { name, bytes } = await segmentWith(TEXTS, how);
      expect(bytes.length).toBe(how === 'killed' ? END : END + FRAME);
      for (let length = 0; length <= bytes.length; length++) {
        const { texts, troubles, damaged, cut } = await read({
          [`${name}.segment`]: bytes.subarray(0, length),
        });
        const whole = STARTS.filter((start) => start > HEADER && start <= length).length;
        expect(texts).toEqual(TEXTS.slice(0, whole));
        const torn = length > HEADER && length < bytes.length && !STARTS.includes(length);
        expect(cut).toBe(torn ? 1 : 0);
        expect({ troubles, damaged: damaged.size }).toEqual({ troubles: [], damaged: 0 });
      }
    },
  );

  test('[R-851] of zeros, as after a loss of power, is reported and not kept', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'killed');
    const { texts, troubles, damaged } = await read({
      [`${name}.segment`]: Buffer.concat([bytes, Buffer.alloc(5000)]),
    });
    expect(texts).toEqual(TEXTS);
    expect(troubles).toEqual([expect.stringMatching(/^5000 bytes .* zeros$/)]);
    expect(damaged.size).toBe(0);
  });
});

describe('damage', () => {
  test.each([
    ['plain', undefined],
    ['sealed', Buffer.alloc(32, 9)],
  ] as const)('[R-853] of any byte of a %s segment hides only its own event', async (_kind, key) => {
    const options = key && { key };
    const { name, bytes } = await segmentWith(TEXTS, 'closed', options);
    const tag = key ? 16 : 0;
    for (let at = 0; at < bytes.length; at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ (1 << (at % 8));
      const { texts, troubles, damaged, cut } = await read({ [`${name}.segment`]: flipped }, options);
      const hit = at < HEADER ? -1 : STARTS.findLastIndex((start, index) => at >= start + index * tag);
      expect(texts).toEqual(TEXTS.filter((_, index) => index !== hit));
      // Only in the last frame, a size that has grown looks like a write that was cut off.
      expect(cut === 0 || (hit === TEXTS.length && troubles.length === 0)).toBe(true);
      expect(troubles.length + cut).toBeGreaterThan(0);
      if (hit < 0 || cut > 0) continue;
      const start = (STARTS[hit] as number) + hit * tag;
      const next = STARTS[hit + 1];
      const end = next === undefined ? bytes.length : next + (hit + 1) * tag;
      expect(damaged.get(`${name}-${start}.bytes`)).toEqual(flipped.subarray(start, end));
    }
  });

  test('[R-853] of several frames and a part of the next is put aside in one piece', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'closed');
    const [from, to] = [(STARTS[1] as number) + 3, (STARTS[2] as number) + 20];
    bytes.fill(0xff, from, to);
    const { texts, damaged, troubles } = await read({ [`${name}.segment`]: bytes });
    expect(texts).toEqual([TEXTS[0], TEXTS[3]]);
    expect([...damaged.values()]).toEqual([bytes.subarray(STARTS[1], STARTS[3])]);
    expect(troubles).toContainEqual(expect.stringContaining('2 of its events are missing'));
  });

  test('[R-853] that removes or adds bytes in the middle loses that event alone', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'killed');
    const cut = (STARTS[1] as number) + 40;
    const missing = Buffer.concat([bytes.subarray(0, cut), bytes.subarray(cut + 5)]);
    const more = Buffer.concat([bytes.subarray(0, cut), Buffer.from('more'), bytes.subarray(cut)]);
    for (const damaged of [missing, more]) {
      const { texts } = await read({ [`${name}.segment`]: damaged });
      expect(texts).toEqual([TEXTS[0], TEXTS[2], TEXTS[3]]);
    }
  });

  test('[R-853] a frame of another segment, or one inside an event, is never taken for an event', async () => {
    const other = await segmentWith(['of another segment'], 'killed');
    const frame = other.bytes.subarray(HEADER);
    const { name, bytes } = await segmentWith([frame.toString('latin1'), 'last'], 'killed');
    const foreign = Buffer.concat([bytes.subarray(0, HEADER), frame, bytes.subarray(HEADER)]);
    expect((await read({ [`${name}.segment`]: foreign })).texts).toHaveLength(2);
    // Without the head of the frame around it.
    foreign.fill(0, HEADER + frame.length, HEADER + frame.length + FRAME);
    expect((await read({ [`${name}.segment`]: foreign })).texts).toEqual(['last']);
  });

  test('[R-853] a frame with an impossible kind, flag or time is put aside', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'killed');
    const [start, end] = STARTS as [number, number];
    for (const at of [12, 13, 23]) {
      const forged = Buffer.from(bytes);
      forged[start + at] = 9;
      forged.writeUInt32LE(crc32(forged.subarray(start + 4, end), crc32(Buffer.from(name, 'hex'))), start);
      const { texts, damaged } = await read({ [`${name}.segment`]: forged });
      expect(texts).toEqual(TEXTS.slice(1));
      expect([...damaged.values()]).toEqual([forged.subarray(start, end)]);
    }
  });

  test('[R-853] that is larger than one read is skipped, wherever the read ends', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'killed');
    for (let size = (256 << 10) - 40; size < (256 << 10) + 8; size++) {
      const rubbish = Buffer.alloc(size, '5');
      const file = Buffer.concat([bytes.subarray(0, HEADER), rubbish, bytes.subarray(HEADER)]);
      const { texts, damaged } = await read({ [`${name}.segment`]: file });
      expect(texts).toEqual(TEXTS);
      expect([...damaged.values()].map((kept) => kept.equals(rubbish))).toEqual([true]);
    }
  });

  test.each([
    ['could not be read at first', 'read'],
    ['cannot be put aside', 'makeDirectory'],
  ] as const)(
    '[R-853] a segment of which something %s is left for the next start',
    async (_what, failing) => {
      const { name, bytes } = await segmentWith(TEXTS, 'closed');
      if (failing === 'makeDirectory') bytes.fill(0xff, STARTS[1], STARTS[2]);
      const disk = new MemoryDisk();
      const series = '0'.repeat(26);
      for (const at of [ROOT, `${ROOT}/${series}`]) disk.directories.add(at);
      disk.put(`${ROOT}/${series}/${name}.segment`, bytes);
      const process = disk.process();
      const spool = await openSpool({ directory: ROOT, durability: 'os', files: process.files });
      let left = failing === 'read' ? 2 : Infinity;
      process.fate = (operation, file) =>
        operation === failing && (file.includes(name) || file.endsWith('damaged')) && left-- > 0
          ? 'before'
          : undefined;
      // Events that exist are waited for; without events, only the signal ends the call.
      const nothing = AbortSignal.timeout(20);
      const first = await spool.take(10, 1000, failing === 'read' ? nothing : undefined);
      for (const event of first) spool.done(event);
      process.fate = () => undefined;
      await spool.close();
      expect(disk.files(ROOT, '.segment')).toHaveLength(1);
      const next = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
      const events = await next.take(10, 1000, failing === 'read' ? undefined : AbortSignal.timeout(20));
      expect(events.map(textOf)).toEqual(failing === 'read' ? TEXTS : []);
      for (const event of events) next.done(event);
      await next.close();
      expect(disk.files(ROOT, '.segment')).toEqual([]);
    },
  );

  test('[R-853] events that the disk cannot read are reported, and read at the next start', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'closed');
    const disk = new MemoryDisk();
    const series = '0'.repeat(26);
    for (const at of [ROOT, `${ROOT}/${series}`]) disk.directories.add(at);
    disk.put(`${ROOT}/${series}/${name}.segment`, bytes);
    const process = disk.process();
    const troubles: string[] = [];
    const onTrouble = (what: string) => troubles.push(what);
    const spool = await openSpool({ directory: ROOT, durability: 'os', files: process.files, onTrouble });
    expect(spool.state.waiting).toBe(TEXTS.length);
    process.fate = (operation, file) => (operation === 'read' && file.includes(name) ? 'before' : undefined);
    await spool.append('outcome', Buffer.from('new'));
    expect((await spool.take(10, 1000)).map(textOf)).toEqual(['new']);
    expect(troubles).toContainEqual(`${TEXTS.length} events of segment ${name} cannot be read`);
    await spool.close();
    const next = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
    expect((await next.take(10, 1000)).map(textOf).sort()).toEqual([...TEXTS, 'new'].sort());
    await next.close();
  });
});

describe('marks of done events', () => {
  test('[R-851] torn at any byte repeat events, and lose none', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'closed');
    const checksumStart = crc32(Buffer.from(name, 'hex'));
    const mark = (index: number) => STARTS[index] as number;
    const batches = [encodeMarks([mark(0), mark(2)], checksumStart), encodeMarks([mark(1)], checksumStart)];
    const marks = Buffer.concat(batches);
    const first = (batches[0] as Buffer).length;
    for (let length = 0; length <= marks.length; length++) {
      const { texts } = await read({
        [`${name}.segment`]: bytes,
        [`${name}.done`]: marks.subarray(0, length),
      });
      const done = length < first ? [] : length < marks.length ? [0, 2] : [0, 2, 1];
      expect(texts).toEqual(TEXTS.filter((_, index) => !done.includes(index)));
    }
  });

  test('[R-851] of another segment are ignored', async () => {
    const { name, bytes } = await segmentWith(TEXTS, 'closed');
    const marks = encodeMarks([HEADER], crc32(Buffer.alloc(16)));
    const { texts } = await read({ [`${name}.segment`]: bytes, [`${name}.done`]: marks });
    expect(texts).toEqual(TEXTS);
  });
});
