import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Line, linesOf } from '../../src/spool/quarantine.js';
import { MemoryDisk } from './memory-disk.js';

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

test('lines are what stands between line breaks, and where', async () => {
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

test('a line may go over many pieces, and one that is longer than any event is only measured', async () => {
  const long = Buffer.alloc(3 << 20, 'x');
  const longer = Buffer.alloc((32 << 20) + 1, 'y');
  const lines = await read(Buffer.concat([long, Buffer.from('\n'), longer, Buffer.from('\nend')]));
  expect(lines.map(({ offset, size, text }) => [offset, size, text?.length])).toEqual([
    [0, long.length + 1, long.length],
    [long.length + 1, longer.length + 1, undefined],
    [long.length + longer.length + 2, 3, 3],
  ]);
});
