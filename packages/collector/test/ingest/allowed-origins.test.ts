import { describe, expect, test } from 'vitest';
import { AllowedOrigins, OriginsInvalid } from '../../src/ingest/answers.js';

describe('the list of origins [R-824]', () => {
  test('allows what it names and nothing like it', () => {
    const origins = new AllowedOrigins('https://app.example.org, http://localhost:3000');
    for (const named of ['https://app.example.org', 'http://localhost:3000'])
      expect(origins.allows(named)).toBe(true);
    for (const other of [
      ...[
        'http://app.example.org',
        'https://app.example.org:8443',
        'https://evil.app.example.org',
        'null',
        '',
      ],
      ...['https://app.example.org.evil.test', 'HTTPS://APP.EXAMPLE.ORG', 'https://app.example.org/', '*'],
    ]) {
      expect(origins.allows(other), other).toBe(false);
    }
  });

  test('allows nothing when it is empty', () => {
    expect(new AllowedOrigins('').allows('')).toBe(false);
  });

  test.each([
    ['*', /name each in full/],
    ['null', /is no origin/],
    ['app.example.org', /is no origin/],
    ['https://app.example.org/', /did you mean "https:\/\/app\.example\.org"/],
    ['https://app.example.org:443', /did you mean "https:\/\/app\.example\.org"/],
    ['https://App.example.org/path?query', /did you mean "https:\/\/app\.example\.org"/],
    ['https://*.example.org', /name each in full/],
    ['file:///srv/app.html', /is no origin/],
    ['https://app.example.org,', /is no origin/],
  ])('cannot hold %s', (text, why) => {
    expect(() => new AllowedOrigins(text)).toThrow(OriginsInvalid);
    expect(() => new AllowedOrigins(text)).toThrow(why);
  });
});
