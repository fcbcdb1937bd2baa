import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Line, linesOf, quarantinedLines, requeue } from '../../src/spool/inspection.js';
import { quarantineFiles } from '../../src/spool/set-aside.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { type Spool, SpoolFull, SpoolKeyWrong, type SpoolOptions } from '../../src/spool/spool.js';
import { type Manner, MemoryDisk } from './memory-disk.js';
import { ROOT, textOf } from './spooled-segments.js';

const KEY = Buffer.alloc(32, 4);
const REFUSAL = { status: 400, code: 'validation_failed', at: '2026-01-01T00:00:00Z' };
const TEXTS = ['one', 'two\nlines', 'three \u202e', '{"four":4}'];

type Options = Partial<SpoolOptions>;

/** A disk with the events in the quarantine of a closed spool. */
async function quarantined(texts: readonly string[], options: Options = {}): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  const spool = await open(disk, options);
  for (const text of texts) await spool.append('outcome', Buffer.from(text));
  for (const event of await spool.take(texts.length, 1e6)) await spool.quarantine(event, REFUSAL);
  await spool.close();
  return disk;
}

function open(disk: MemoryDisk, options: Options = {}): Promise<Spool> {
  return openSpool({ directory: ROOT, durability: 'fsync', files: disk.process().files, ...options });
}

/** The events that a new spool on the disk returns. */
async function waiting(disk: MemoryDisk, options: Options = {}): Promise<string[]> {
  const spool = await open(disk, options);
  const { waiting: count } = spool.state;
  const events = count === 0 ? [] : await spool.take(count, 1e6);
  await spool.close();
  return events.map(textOf);
}

async function inQuarantine(disk: MemoryDisk): Promise<string[]> {
  const { files } = disk.process();
  const texts: string[] = [];
  for (const file of await quarantineFiles(files, ROOT)) {
    for await (const { event } of quarantinedLines(files, file, undefined)) {
      if (typeof event === 'object') texts.push(textOf(event));
    }
  }
  return texts;
}

test.each([undefined, KEY])(
  '[R-866] requeued events wait again, byte for byte, and leave the quarantine',
  async (key) => {
    const options = key ? { key } : {};
    const disk = await quarantined(TEXTS, options);
    const { files } = disk.process();
    const spool = await open(disk, options);
    expect(await requeue(ROOT, key, spool, files)).toEqual({ events: 4, unreadable: [] });
    await spool.close();
    expect(disk.files(`${ROOT}/quarantine`)).toEqual([]);
    expect((await waiting(disk, options)).sort()).toEqual([...TEXTS].sort());
  },
);

test('[R-866] wherever requeuing is stopped, each event waits or is in quarantine', async () => {
  for (const manner of ['before', 'partly', 'after'] satisfies Manner[]) {
    let completed = false;
    for (let calls = 0; !completed; calls++) {
      const disk = await quarantined(TEXTS);
      const stopped = disk.process();
      const spool = await openSpool({ directory: ROOT, durability: 'fsync', files: stopped.files });
      stopped.endIn = { calls, manner };
      completed = await requeue(ROOT, undefined, spool, stopped.files).then(
        () => true,
        () => false,
      );
      stopped.end();
      await spool.close();
      const found = new Set([...(await inQuarantine(disk)), ...(await waiting(disk))]);
      expect([...found].sort()).toEqual([...TEXTS].sort());
      // The next try requeues what the first one has left.
      const again = await open(disk);
      await requeue(ROOT, undefined, again, disk.process().files);
      await again.close();
      expect(await inQuarantine(disk)).toEqual([]);
      expect([...new Set(await waiting(disk))].sort()).toEqual([...TEXTS].sort());
    }
  }
});

test('[R-866] a line that is written while its file is moved away is not lost', async () => {
  const disk = new MemoryDisk();
  const writer = disk.process();
  const spool = await openSpool({ directory: ROOT, durability: 'fsync', files: writer.files });
  for (const text of ['early', 'late']) await spool.append('outcome', Buffer.from(text));
  const [early, late] = await spool.take(2, 1e6);
  if (!early || !late) throw new Error('not all were given out');
  await spool.quarantine(early, REFUSAL);
  // The second line is about to be written when the file is moved away.
  const write = writer.files.write.bind(writer.files);
  let goOn: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => {
    writer.files.write = async (fd, source, position) => {
      if (textOf({ body: source }).includes('"refusal"')) {
        writer.files.write = write;
        resolve();
        await new Promise<void>((go) => (goOn = go));
      }
      await write(fd, source, position);
    };
  });
  const second = spool.quarantine(late, REFUSAL);
  await reached;
  const other = await open(disk);
  expect(await requeue(ROOT, undefined, other, disk.process().files)).toMatchObject({ events: 1 });
  goOn();
  await second;
  expect(await inQuarantine(disk)).toEqual(['late']);
  await other.close();
  await spool.close();
});

test('[R-866] with the wrong key, or none, nothing is changed', async () => {
  const disk = await quarantined(TEXTS, { key: KEY });
  const before = disk.files(ROOT);
  for (const key of [undefined, Buffer.alloc(32, 5)]) {
    const spool = await open(disk, key && { key });
    await expect(requeue(ROOT, key, spool, disk.process().files)).rejects.toThrow(SpoolKeyWrong);
    await spool.close();
    expect(disk.files(ROOT)).toEqual(before);
  }
});

test('[R-866] a line that cannot be read is kept, and the others wait', async () => {
  const disk = await quarantined(TEXTS);
  const [file = ''] = disk.files(`${ROOT}/quarantine`);
  const bytes = Buffer.from(disk.bytesOf(file));
  const torn = Buffer.from('{"at":"2026');
  disk.put(file, Buffer.concat([bytes, torn]));
  const spool = await open(disk);
  const { events, unreadable } = await requeue(ROOT, undefined, spool, disk.process().files);
  await spool.close();
  expect(events).toBe(4);
  expect(unreadable).toHaveLength(1);
  expect(disk.bytesOf(unreadable[0] ?? '')).toEqual(torn);
});

test('[R-866] events without room in the spool stay in quarantine', async () => {
  const disk = await quarantined(TEXTS);
  const spool = await open(disk, { maxBytes: 100 });
  await expect(requeue(ROOT, undefined, spool, disk.process().files)).rejects.toThrow(SpoolFull);
  await spool.close();
  expect((await inQuarantine(disk)).sort()).toEqual([...TEXTS].sort());
});

const FILE = '/spool/file';

async function read(bytes: Buffer): Promise<Line[]> {
  const disk = new MemoryDisk();
  disk.put(FILE, bytes);
  const { files } = disk.process();
  const fd = await files.open(FILE, 'read');
  const lines: Line[] = [];
  for await (const line of linesOf(files, fd)) lines.push(line);
  return lines;
}

test('lines are the text between line breaks, with their offset and size', async () => {
  const text = fc.string({ unit: fc.constantFrom('a', '\n', 'é', '\r'), maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(text, async (written) => {
      const bytes = Buffer.from(written);
      const lines = await read(bytes);
      const expected = written.split('\n');
      if (expected.at(-1) === '') expected.pop();
      expect(lines.map((line) => line.text)).toEqual(expected);
      for (const { offset, size, text: found = '' } of lines) {
        expect(
          bytes
            .subarray(offset, offset + size)
            .toString()
            .replace('\n', ''),
        ).toBe(found);
      }
    }),
  );
});

test('a long line is read in many pieces, and one longer than any event is only measured', async () => {
  const long = Buffer.alloc(3 << 20, 'x');
  const longer = Buffer.alloc((32 << 20) + 1, 'y');
  const lines = await read(Buffer.concat([long, Buffer.from('\n'), longer, Buffer.from('\nend')]));
  expect(lines.map(({ offset, size, text }) => [offset, size, text?.length])).toEqual([
    [0, long.length + 1, long.length],
    [long.length + 1, longer.length + 1, undefined],
    [long.length + longer.length + 2, 3, 3],
  ]);
});
