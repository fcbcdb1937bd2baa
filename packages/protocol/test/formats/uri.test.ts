import { isIPv6 } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isUri } from '../../src/formats/uri.js';

// Appendix A of RFC 3986, rule by rule, as a regular expression; IPv6 is left to the platform.
const UNRESERVED_OR_DELIMITER = "[A-Za-z0-9\\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2}";
const PCHAR = `(?:${UNRESERVED_OR_DELIMITER}|[:@])`;
const AUTHORITY = `(?:(?:${UNRESERVED_OR_DELIMITER}|:)*@)?(?:\\[(?<literal>[^\\]]*)\\]|(?:${UNRESERVED_OR_DELIMITER})*)(?::[0-9]*)?`;
const HIER_PART = `(?://${AUTHORITY}(?:/${PCHAR}*)*|/(?:${PCHAR}+(?:/${PCHAR}*)*)?|${PCHAR}+(?:/${PCHAR}*)*|)`;
const URI = new RegExp(
  `^[A-Za-z][A-Za-z0-9+\\-.]*:${HIER_PART}(?:\\?(?:${PCHAR}|[/?])*)?(?:#(?:${PCHAR}|[/?])*)?$`,
);
const IP_FUTURE = /^[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+$/;

function reference(text: string): boolean {
  const match = URI.exec(text);
  if (match === null) return false;
  const literal = match.groups?.['literal'];
  if (literal === undefined) return true;
  return IP_FUTURE.test(literal) || (isIPv6(literal) && !literal.includes('%'));
}

const pieces = [
  ...[
    ...['http', 'urn', 'a', 'Z', '1', '+', '-', '.', '~', ':', '/', '//', '@', '?', '#', '[', ']'],
    ...['[::1]', ':80'],
  ],
  ...[
    ...['%41', '%4', '%', '%zz', 'host', '127.0.0.1', 'v1.x', "'", '(', '*', '|', '\\', '^', ' ', '"'],
    ...['<', 'é', '🙂'],
  ],
];
const nearUri = fc
  .tuple(
    fc.constantFrom('http://', 'a:', 's3://', 'urn:', '', '1:', 'http://[', 'x://u:p@'),
    fc.array(fc.constantFrom(...pieces), { maxLength: 8 }),
  )
  .map(([start, rest]) => start + rest.join(''));
const group = fc.constantFrom(
  '0',
  'f',
  'abcd',
  '1',
  'A0b',
  '12345',
  'g',
  '',
  '1.2.3.4',
  '256.1.1.1',
  '01.2.3.4',
  '%1',
);
const goodGroups = fc.array(fc.constantFrom('0', 'f', 'abcd', 'A0b'), { maxLength: 9 });
const nearIpv6 = fc.oneof(
  fc.array(group, { maxLength: 9 }).map((groups) => groups.join(':')),
  // Around a gap, where mistakes in the number of groups are likely.
  fc
    .tuple(goodGroups, goodGroups, fc.constantFrom('', '', ':1.2.3.4', ':1.2.3.400', ':'))
    .map(([left, right, end]) => `${left.join(':')}::${right.join(':')}${end}`),
  fc.tuple(goodGroups, fc.constantFrom('', ':1.2.3.4')).map(([groups, end]) => groups.join(':') + end),
);

describe('isUri', () => {
  it.each([
    'ftp://ftp.is.co.za/rfc/rfc1808.txt',
    'ldap://[2001:db8::7]/c=GB?objectClass?one',
    'mailto:John.Doe@example.com',
    'tel:+1-816-555-1212',
    'urn:oasis:names:specification:docbook:dtd:xml:4.1.2',
    's3://bucket/a%20key',
    'file:///var/data',
    'data:text/plain;base64,SGVsbG8=',
    'http://',
    'x:',
    'http://user:secret@host:8080/a//b?c=d/e?f#g/h?i',
    'http://[v7.abc:def]/',
    'http://[::ffff:192.0.2.1]:80',
    'http://[1:2:3:4:5:6:7::]/',
    'http://[1:2:3:4:5:6:192.0.2.1]/',
    'http://host:/',
  ])('accepts %s', (text) => {
    expect(isUri(text)).toBe(true);
  });

  it.each([
    ['nothing', ''],
    ['a relative path', 'a/b'],
    ['an absolute path', '/a/b'],
    ['a network path', '//host/a'],
    ['a fragment alone', '#a'],
    ['a scheme that begins with a digit', '1a:b'],
    ['a percent-encoded octet in the scheme', 'a%41:b'],
    ['an empty scheme', ':b'],
    ['a space', 'http://host/a b'],
    ['a backslash', 'http://host\\a'],
    ['a curly bracket', 'http://host/{id}'],
    ['a letter that is not ASCII', 'http://host/é'],
    ['half a percent-encoded octet', 'http://host/%4'],
    ['a percent sign that encodes nothing', 'http://host/%zz'],
    ['a second fragment', 'a:b#c#d'],
    ['a port that is not a number', 'http://host:8o'],
    ['a bracket in the path', 'http://host/[1]'],
    ['an address that is not closed', 'http://[::1/'],
    ['an address with two gaps', 'http://[1::2::3]/'],
    ['an address with a zone', 'http://[fe80::1%25en0]/'],
    ['an address with an empty gap', 'http://[1:2:3:4::5:6:7:8]/'],
    ['an address of nine groups', 'http://[1:2:3:4:5:6:7:8:9]/'],
    ['text between an address and the path', 'http://[::1]x/'],
    ['a second at sign in the authority', 'http://a@b@c/'],
    ['a line feed at the end', 'http://host/\n'],
  ])('refuses %s', (_, text) => {
    expect(isUri(text)).toBe(false);
  });

  it('accepts every web address', () => {
    fc.assert(
      fc.property(fc.webUrl({ withFragments: true, withQueryParameters: true }), (url) => {
        expect(isUri(url)).toBe(true);
      }),
    );
  });

  it('agrees with the grammar of RFC 3986 on texts that are nearly URIs', () => {
    fc.assert(
      fc.property(nearUri, (text) => {
        expect(isUri(text)).toBe(reference(text));
      }),
      { numRuns: 5000 },
    );
  });

  it('agrees with the platform on what an IPv6 address is', () => {
    fc.assert(
      fc.property(nearIpv6, (address) => {
        expect(isUri(`http://[${address}]/`)).toBe(reference(`http://[${address}]/`));
      }),
      { numRuns: 5000 },
    );
  });

  it.each([
    ['a path', 'a:', 'x', true],
    ['percent-encoded octets', 'a:', '%41', true],
    ['a query', 'a:?', '?', true],
    ['what resembles userinfo', 'a://', ':', false],
    ['an address of empty groups', 'a://[', ':', false],
    ['an address that never closes', 'a://[v1.', 'a', false],
    ['a path that fails at its end', 'a:', 'x', false],
  ])('reads 8 MiB of %s in one pass', (_, start, piece, valid) => {
    const text = start + piece.repeat((8 << 20) / piece.length) + (valid ? '' : ' ]');
    // Linear time is some tens of milliseconds; quadratic time would be hours, and more than a test may take.
    expect(isUri(text)).toBe(valid);
  });
});
