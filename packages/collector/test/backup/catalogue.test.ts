import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatEntry, readCatalogue } from '../../src/backup/catalogue.js';

const entries = fc.uniqueArray(fc.nat(9999), { maxLength: 20 }).map((numbers) =>
  numbers.map((number) => ({
    file: `checkpoints/${String(number).padStart(16, '0')}.checkpoint`,
    sha256: number.toString(16).padStart(64, '0'),
  })),
);

test('[R-811] a list of files is read up to where its writing was cut short', () => {
  fc.assert(
    fc.property(entries, fc.nat(), fc.constantFrom('', '\0\0\0', 'x\n', '\n'), (listed, place, torn) => {
      const lines = listed.map(formatEntry);
      const text = lines.join('');
      const cut = text.slice(0, place % (text.length + 1));
      const whole = cut.split('\n').length - 1;
      expect(readCatalogue(cut + (cut.endsWith('\n') || cut === '' ? torn : ''))).toEqual({
        ...{ entries: listed.slice(0, whole), bytes: lines.slice(0, whole).join('').length },
      });
    }),
  );
});

test('[R-812] a list of files names nothing that a back-up does not have, and nothing twice', () => {
  const sha256 = 'a'.repeat(64);
  const sound = formatEntry({ sha256, file: 'checkpoints/origin.vkey' });
  for (const file of ['../x', '/etc/passwd', 'ledger/../../x', 'access.log', 'checkpoints/latest', '']) {
    expect(readCatalogue(sound + formatEntry({ sha256, file })).entries.length).toBe(1);
  }
  expect(readCatalogue(sound + sound).entries.length).toBe(1);
});
