import fc from 'fast-check';
import { isIP } from 'node:net';
import { describe, expect, test } from 'vitest';
import { TrustedProxies } from '../../src/ingest/trusted-proxies.js';
import { growth, LINEAR } from '../running/growth.js';
import { Unusable } from '../../src/unusable.js';

const PROXY = '10.1.2.3';
const trusted = new TrustedProxies('10.0.0.0/8, 192.0.2.7, fd00::/8');

function clientOf(headers: readonly (readonly [string, string])[], remoteAddress = PROXY, proxies = trusted) {
  return proxies.clientOf({ rawHeaders: headers.flat(), socket: { remoteAddress } });
}

describe('the address of a client [R-823]', () => {
  test.each([
    ['X-Forwarded-For', '203.0.113.9', '203.0.113.9'],
    ['x-forwarded-for', '203.0.113.9:4711', '203.0.113.9'],
    ['X-Forwarded-For', '2001:db8::1', '2001:db8::1'],
    ['X-Forwarded-For', '[2001:db8::1]:4711', '2001:db8::1'],
    ['X-Forwarded-For', '1.1.1.1, 203.0.113.9, 10.9.9.9,fd00::2', '203.0.113.9'],
    ['X-Forwarded-For', '10.0.0.1, 10.0.0.2', '10.0.0.1'],
    ['Forwarded', 'for=203.0.113.9', '203.0.113.9'],
    ['Forwarded', 'For="203.0.113.9:80";proto=http;by=10.1.2.3', '203.0.113.9'],
    ['Forwarded', 'proto=https; for="[2001:db8::1]"', '2001:db8::1'],
    ['Forwarded', 'for=1.1.1.1, for="[2001:db8::17]:99";host="a;b=\\"c\\"", for=10.9.9.9', '2001:db8::17'],
  ])('is read from %s: %s', (name, value, client) => {
    expect(clientOf([[name, value]])).toBe(client);
  });

  test.each([
    ['X-Forwarded-For', ''],
    ['X-Forwarded-For', 'unknown'],
    ['X-Forwarded-For', '203.0.113.9, '],
    ['X-Forwarded-For', '203.0.113.9, 300.1.1.1'],
    ['X-Forwarded-For', '203.0.113.9, 1.2.3.4:123456'],
    ['X-Forwarded-For', '203.0.113.9, fe80::1%eth0'],
    ['X-Forwarded-For', '203.0.113.9, [10.0.0.1]'],
    ['X-Forwarded-For', '203.0.113.9, <script>'],
    ['Forwarded', 'for=203.0.113.9, for=unknown'],
    ['Forwarded', 'for=203.0.113.9, for=_hidden'],
    ['Forwarded', 'for=203.0.113.9, proto=https'],
    ['Forwarded', 'for=203.0.113.9, for=1.1.1.1;for=2.2.2.2'],
    ['Forwarded', 'for=203.0.113.9, for="1.1.1.1'],
    ['Forwarded', 'for=203.0.113.9, host="a, for=1.1.1.1"'],
    ['Forwarded', 'for=203.0.113.9, host="a, for=\\"1.1.1.1\\""'],
    ['Forwarded', '203.0.113.9'],
  ])('is the proxy itself when the last value is no address: %s: %s', (name, value) => {
    expect(clientOf([[name, value]])).toBe(PROXY);
  });

  test('is that of the connection when it does not come from a trusted proxy', () => {
    expect(clientOf([['X-Forwarded-For', '1.1.1.1']], '203.0.113.9')).toBe('203.0.113.9');
    expect(clientOf([['X-Forwarded-For', '1.1.1.1']], PROXY, new TrustedProxies(''))).toBe(PROXY);
  });

  test('is found behind a proxy that is seen as an IPv4 address in IPv6', () => {
    expect(clientOf([['X-Forwarded-For', '203.0.113.9']], '::ffff:10.1.2.3')).toBe('203.0.113.9');
    expect(clientOf([['X-Forwarded-For', '203.0.113.9']], '::ffff:11.1.2.3')).toBe('::ffff:11.1.2.3');
  });

  test('is read from several fields as from one list', () => {
    const fields = ['1.1.1.1', '203.0.113.9', '10.9.9.9'].map((value) => ['X-Forwarded-For', value] as const);
    expect(clientOf(fields)).toBe('203.0.113.9');
  });

  test('is the proxy when the two headers disagree, because the proxy may have written only one', () => {
    const forwarded = ['Forwarded', 'for=1.1.1.1'] as const;
    expect(clientOf([forwarded, ['X-Forwarded-For', '203.0.113.9']])).toBe(PROXY);
    expect(clientOf([forwarded, ['X-Forwarded-For', '1.1.1.1']])).toBe('1.1.1.1');
  });

  test('is undefined when the connection is gone', () => {
    expect(trusted.clientOf({ rawHeaders: [], socket: { remoteAddress: undefined } })).toBeUndefined();
  });
});

const hostile = fc.oneof(
  fc.string({ unit: 'binary-ascii', maxLength: 60 }),
  fc
    .array(
      fc.constantFrom('for=', '"', '\\', ',', ';', '=', '[', ']', ':', '1.2.3.4', '::1', ' ', 'unknown', '%'),
      { maxLength: 20 },
    )
    .map((parts) => parts.join('')),
);
const untrusted = fc.oneof(
  fc.ipV4().filter((address) => !address.startsWith('10.') && address !== '192.0.2.7'),
  fc.ipV6().filter((address) => !/^f[cd]|^0|^::/i.test(address)),
);

test('whatever the headers contain, the result is an address [R-823]', () => {
  const fields = fc.array(fc.tuple(fc.constantFrom('Forwarded', 'X-Forwarded-For'), hostile), {
    maxLength: 4,
  });
  fc.assert(fc.property(fields, (headers) => isIP(clientOf(headers) ?? '') !== 0));
});

test('values that a client writes before those of the proxy change nothing [R-823]', () => {
  fc.assert(
    fc.property(hostile, untrusted, fc.boolean(), fc.boolean(), (written, client, standard, newField) => {
      const name = standard ? 'Forwarded' : 'X-Forwarded-For';
      const node = client.includes(':') ? `"[${client}]"` : client;
      const appended = standard ? `for=${node}` : client;
      const headers = newField
        ? ([
            [name, written],
            [name, appended],
          ] as const)
        : ([[name, `${written}, ${appended}`]] as const);
      expect(clientOf(headers)).toBe(client);
    }),
  );
});

test('a header of nothing but commas costs time that grows with its length', () => {
  const read = (commas: number) => void clientOf([['Forwarded', 'for="\\,'.repeat(commas)]]);
  expect(growth(read, 20_000)).toBeLessThan(LINEAR);
});

describe('the list of proxies', () => {
  test.each([
    ...[
      ...['proxy.example', '10.0.0.0/33', '10.0.0.0/', '10.0.0.0/8/8', 'fd00::/129', '10.0.0.1,'],
      ...['fe80::1%eth0', '*'],
    ],
  ])('cannot be %j [R-823]', (text) => {
    expect(() => new TrustedProxies(text)).toThrow(Unusable);
  });

  test('may name all addresses', () => {
    const everybody = new TrustedProxies('0.0.0.0/0,::/0');
    expect(clientOf([['X-Forwarded-For', '1.1.1.1, 2001:db8::1']], PROXY, everybody)).toBe('1.1.1.1');
    expect(clientOf([['X-Forwarded-For', '1.1.1.1']], '::ffff:8.8.8.8', everybody)).toBe('1.1.1.1');
  });

  test('contains IPv4 addresses under an IPv6 network only if that is one of mapped addresses', () => {
    const written = [['X-Forwarded-For', '1.1.1.1']] as const;
    expect(clientOf(written, PROXY, new TrustedProxies('::/80'))).toBe(PROXY);
    expect(clientOf(written, PROXY, new TrustedProxies('::ffff:10.0.0.0/104'))).toBe('1.1.1.1');
  });
});

describe('the warning about proxies that may be clients [R-823]', () => {
  test.each([
    ...['0.0.0.0/0', '128.0.0.0/1', '8.0.0.0/8', '10.0.0.0/7', '1.0.0.0/9, 3.0.0.0/9', '::/0', '2000::/3'],
    ...['2001:db8::/16', '::ffff:0:0/96', '::ffff:8.0.0.0/104'],
  ])('is given for %s', (text) => {
    expect(new TrustedProxies(text).exposure).toMatch(/public addresses/);
  });

  test.each([
    ...['', '10.0.0.0/8', '10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 127.0.0.0/8, 100.64.0.0/10'],
    ...['192.0.2.7', '104.16.0.0/13, 172.64.0.0/13', 'fc00::/7, fe80::/10', '2606:4700::/32', '::1', '::/80'],
  ])('is not given for %j', (text) => {
    expect(new TrustedProxies(text).exposure).toBeUndefined();
  });
});
