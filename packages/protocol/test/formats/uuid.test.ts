import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isUuid } from '../../src/formats/uuid.js';

describe('isUuid', () => {
  it.each([
    '00000000-0000-0000-0000-000000000000',
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    '2EB8AA08-aa98-11ea-B4aa-73b441d16380',
    '017f22e2-79b0-7cc3-98c4-dc0c0c07398f',
  ])('accepts %s', (text) => {
    expect(isUuid(text)).toBe(true);
  });

  it.each([
    '',
    '2eb8aa08-aa98-11ea-b4aa-73b441d1638',
    '2eb8aa08-aa98-11ea-b4aa-73b441d163800',
    '2eb8aa08-aa98-11ea-b4aa-73b441d1638g',
    '2eb8aa08aa9811eab4aa73b441d16380',
    '2eb8aa08-aa98-11ea-b4aa73b441d16380-',
    'urn:uuid:2eb8aa08-aa98-11ea-b4aa-73b441d16380',
    '2eb8aa08-aa98-11ea-b4aa-73b441d16380\n',
    ' 2eb8aa08-aa98-11ea-b4aa-73b441d16380',
    '２eb8aa08-aa98-11ea-b4aa-73b441d16380',
  ])('refuses %j', (text) => {
    expect(isUuid(text)).toBe(false);
  });

  it('accepts every UUID in either case', () => {
    fc.assert(
      fc.property(fc.uuid(), (uuid) => {
        expect(isUuid(uuid) && isUuid(uuid.toUpperCase())).toBe(true);
      }),
    );
  });

  it('refuses a UUID with a character that is no hexadecimal digit or hyphen', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.nat(35), fc.string({ minLength: 1, maxLength: 1 }), (uuid, at, other) => {
        fc.pre(!/[0-9a-f-]/i.test(other));
        expect(isUuid(uuid.slice(0, at) + other + uuid.slice(at + 1))).toBe(false);
      }),
    );
  });
});
