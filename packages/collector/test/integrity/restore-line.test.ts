import fc from 'fast-check';
import { expect, test } from 'vitest';
import { restoreLineIn } from '../../src/integrity/restore-line.js';

const line = {
  ...{ at: '2026-11-22T04:00:00.000Z', state: 'restored', uid: 0, user: null, log: '0123456789abcdef' },
  ...{
    lines: 7,
    root: Buffer.alloc(32, 7).toString('base64'),
    backup: '20261122T040000000Z-3.json',
    events: 3,
  },
};
const bytesOf = (value: unknown) => Buffer.from(JSON.stringify(value));

test('[R-718] a line of a restore is read as it was written', () => {
  expect(restoreLineIn(bytesOf(line))).toEqual({
    ...{ at: line.at, log: line.log, lines: 7, root: Buffer.alloc(32, 7), backup: line.backup, events: 3 },
  });
});

test.each<[string, object]>([
  ['is of a reading', { ...line, state: 'begun' }],
  ['has a name that is none', { ...line, log: '../../../../etc' }],
  ['has a root that is none', { ...line, root: 'AAAA' }],
  ['counts no lines', { ...line, lines: '7' }],
  ['counts no events', { ...line, events: 1.5 }],
  ['names no back-up', { ...line, backup: undefined }],
  ['only quotes one', { ...line, state: 'begun', filter: '"state":"restored"' }],
  ['is longer than any', { ...line, more: 'x'.repeat(2048) }],
])('a line that %s is none', (_, value) => {
  expect(restoreLineIn(bytesOf(value))).toBeUndefined();
});

test('whatever stands there is a line of a restore or none, and no error', () => {
  const whole = bytesOf(line);
  const changed = fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
    const bytes = Buffer.from(whole);
    bytes[at] = byte;
    return bytes;
  });
  const any = fc.oneof(
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc.json().map((text) => Buffer.from(text)),
    changed,
  );
  fc.assert(
    fc.property(any, (bytes) => {
      const found = restoreLineIn(bytes);
      if (found !== undefined)
        expect([found.root.length, /^[0-9a-f]{16}$/.test(found.log)]).toEqual([32, true]);
    }),
  );
  expect(restoreLineIn(undefined)).toBeUndefined();
});
