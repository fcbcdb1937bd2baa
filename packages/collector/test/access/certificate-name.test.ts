import { describe, expect, test } from 'vitest';
import { certificateName } from '../../src/access/principal.js';

describe('the name that a key is bound to [R-821]', () => {
  test.each([
    ['dns:app.example.org', 'dns:app.example.org'],
    ['dns:App.Example.ORG', 'dns:app.example.org'],
    ['dns:localhost', 'dns:localhost'],
    ['uri:spiffe://example.org/ns/Triage', 'uri:spiffe://example.org/ns/Triage'],
    [
      'uri:urn:uuid:6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10',
      'uri:urn:uuid:6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10',
    ],
  ])('%s is written %s', (text, name) => {
    expect(certificateName(text)).toBe(name);
  });

  test.each([
    ...[
      ...['', 'app.example.org', 'dns:', 'uri:', 'ip:10.0.0.1', 'spiffe://example.org/app'],
      'DNS:app.example.org',
    ],
    ...[
      'dns:*.example.org',
      'dns:app..example.org',
      'dns:app.example.org.',
      'dns:-app.example.org',
      'dns:a b',
    ],
    ...['dns:äpp.example.org', `dns:${'a'.repeat(64)}.org`, `dns:${'a.'.repeat(130)}org`],
    ...[
      'uri:app',
      'uri:spiffe://example.org/a b',
      'uri:spiffe://example.org/\n',
      `uri:u:${'x'.repeat(2050)}`,
    ],
  ])('%j is not a name', (text) => {
    expect(certificateName(text)).toBeUndefined();
  });
});
