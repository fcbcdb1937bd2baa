import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { EVENT_KINDS, EVENT_PATHS, PROFILES } from '@clinical-events/protocol';
import { validateEvent } from '@clinical-events/protocol/validate';
import { expect, test } from 'vitest';
import { newKeyId, newKeyText } from '../../src/access/key-ring.js';
import { firstEventCurl } from '../../src/commands/listening.js';
import { Authority } from '../running/certificates.js';

const KEY = newKeyText(newKeyId());

const tlsOf = (certificate: X509Certificate | undefined) => ({
  file: '/etc/tls.crt',
  certificate,
  clientShowsOne: false,
});

/** What a shell hands to curl when the line is pasted. */
function pasted(line: string): string[] {
  const script = `curl() { for word in "$@"; do printf '%s\\0' "$word"; done; }\n${line}\n`;
  return execFileSync('sh', ['-c', script], { encoding: 'utf8' }).split('\0').slice(0, -1);
}

test.each(EVENT_KINDS)('the curl line for %s posts an event that is valid in both profiles', (kind) => {
  const words = pasted(firstEventCurl({ host: '127.0.0.1', port: 8080 }, KEY, kind));
  expect(words.slice(0, -1)).toEqual([
    '-sS',
    '-X',
    'POST',
    `http://127.0.0.1:8080${EVENT_PATHS[kind]}`,
    '-H',
    `X-API-Key: ${KEY}`,
    '-H',
    'Content-Type: application/json',
    '-d',
  ]);
  const event: unknown = JSON.parse(words.at(-1) ?? '');
  for (const profile of PROFILES) expect(validateEvent(kind, profile, event)).toBeUndefined();
});

test('the curl line has https for a collector with TLS [R-505]', () => {
  const listening = { host: 'collector.example', port: 8443, tls: tlsOf(undefined) };
  expect(firstEventCurl(listening, KEY, 'outcome')).toContain('https://collector.example:8443/');
});

test('the curl line names the certificate to trust, and a client certificate if one is required [R-505]', () => {
  const of = (clientShowsOne: boolean, file: string) => {
    const listening = { host: '::1', port: 1, tls: { ...tlsOf(undefined), clientShowsOne, file } };
    const words = pasted(firstEventCurl(listening, KEY, 'outcome'));
    return words.slice(words.indexOf('--cacert'), words.indexOf('-H'));
  };
  expect(of(false, "/a b/it's $HOME.crt")).toEqual(['--cacert', "/a b/it's $HOME.crt"]);
  expect(of(true, '/c')).toEqual(['--cacert', '/c', '--cert', 'client.crt', '--key', 'client.key']);
});

test.each([
  [
    ['dns:collector.example'],
    '127.0.0.1',
    ['--resolve', 'collector.example:8443:127.0.0.1'],
    'collector.example',
  ],
  [['dns:*.example', 'dns:a b', 'dns:c.example'], '::', ['--resolve', 'c.example:8443:[::1]'], 'c.example'],
  [['dns:collector.example'], 'localhost', [], 'collector.example'],
  [['dns:collector.example', 'ip:127.0.0.1'], '0.0.0.0', [], '127.0.0.1'],
  [['dns:*.example'], 'collector.example', [], 'collector.example'],
  [['dns:*.example', 'uri:spiffe://example.org/c'], '10.0.0.1', [], '10.0.0.1'],
  [[], '10.0.0.1', [], '10.0.0.1'],
])(
  'with a certificate for %j on %s the curl line has a matching name, if there is one',
  (names, host, more, called) => {
    const issued = new Authority().issue({ commonName: 'collector', names });
    const certificate = new X509Certificate(issued.certificate);
    const words = pasted(firstEventCurl({ host, port: 8443, tls: tlsOf(certificate) }, KEY, 'outcome'));
    expect(words.slice(1, words.indexOf('--cacert'))).toEqual([
      '-X',
      'POST',
      ...more,
      `https://${called}:8443/event/outcome`,
    ]);
  },
);

test.each([
  ['0.0.0.0', 'http://127.0.0.1:1/'],
  ['::', 'http://[::1]:1/'],
  ['fd00::1', 'http://[fd00::1]:1/'],
  ['collector.example', 'http://collector.example:1/'],
])('for a collector that listens on %s the curl line has %s', (host, url) => {
  expect(firstEventCurl({ host, port: 1 }, KEY, 'outcome')).toContain(url);
});
