import { X509Certificate } from 'node:crypto';
import { Socket } from 'node:net';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { alternativeNames, showsCertificate } from '../../src/access/client-certificate.js';
import { Authority } from '../running/certificates.js';

const authority = new Authority();

function namesOf(...names: readonly string[]): string[] {
  const { certificate } = authority.issue({ commonName: 'app', names });
  return alternativeNames(new X509Certificate(certificate).subjectAltName ?? '');
}

test('the names of a certificate are its DNS names and its URIs [R-821]', () => {
  expect(namesOf('dns:App.Example.org', 'uri:spiffe://example.org/App', 'ip:10.0.0.1')).toEqual([
    'dns:app.example.org',
    'uri:spiffe://example.org/App',
  ]);
  expect(namesOf()).toEqual([]);
});

test('a name that contains another one is one name [R-821]', () => {
  const inside = 'uri:x://a, URI:spiffe://example.org/app, DNS:app.example.org';
  expect(namesOf(inside, 'dns:b, DNS:c')).toEqual([inside, 'dns:b, dns:c']);
});

test('all names of a certificate are read unchanged, each by itself [R-821]', () => {
  const value = fc.string({
    unit: fc.oneof(
      fc.constantFrom(...Array.from('",:\\ \n\'='), 'DNS:', 'URI:'),
      fc.string({ minLength: 1, maxLength: 1, unit: 'binary-ascii' }),
    ),
    maxLength: 12,
  });
  const names = fc.array(fc.tuple(fc.constantFrom('dns', 'uri'), value), { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(names, (made) => {
      const expected = made.map(([type, text]) => `${type}:${type === 'dns' ? text.toLowerCase() : text}`);
      expect(namesOf(...made.map(([type, text]) => `${type}:${text}`))).toEqual(expected);
    }),
    { numRuns: 60 },
  );
});

test('text with a syntax error has no names, and never throws [R-821]', () => {
  expect(alternativeNames('DNS:a, "b')).toEqual([]);
  expect(alternativeNames('DNS:a, URI:"\\x"')).toEqual([]);
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...Array.from('DNSURI:, "\\u0a')) }), (text) =>
      Array.isArray(alternativeNames(text)),
    ),
  );
});

test('a connection that is not encrypted shows no certificate [R-821]', () => {
  expect(showsCertificate(new Socket(), 'dns:app.example.org', 0)).toBe(false);
});
