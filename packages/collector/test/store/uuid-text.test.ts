import fc from 'fast-check';
import { expect, test } from 'vitest';
import { uuidText } from '../../src/store/text.js';

test('the text of a UUID is that of its 16 bytes, at any offset', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.uint8Array({ maxLength: 9 }), (uuid, before) => {
      const bytes = Buffer.concat([before, Buffer.from(uuid.replaceAll('-', ''), 'hex'), before]);
      expect(uuidText(bytes, before.length)).toBe(uuid);
      expect(uuidText(bytes.subarray(before.length))).toBe(uuid);
    }),
  );
});
