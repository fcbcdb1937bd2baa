import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Log } from '../../src/ingest/refusal-log.js';
import { CertificateUnusable, ServerCertificate, type CertificateFiles } from '../../src/ingest/tls.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { Authority, writePair, type Wish } from '../running/certificates.js';

const POLL_MS = 20;
/** Many looks, on a machine that is busy. */
const SETTLED_MS = 400;
const authority = new Authority();

function pairOnDisk(wish: Wish = { commonName: 'first' }): CertificateFiles {
  const [, cert = '', , key = ''] = writePair(scratchDirectory(), authority.issue(wish));
  return { cert, key, clientCa: undefined };
}

async function faultsOf(files: CertificateFiles): Promise<CertificateUnusable['faults']> {
  const error: unknown = await ServerCertificate.read(files).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(CertificateUnusable);
  return (error as CertificateUnusable).faults;
}

test('a pair that fits is read, with the authorities [R-821]', async () => {
  const files = pairOnDisk();
  const clientCa = path.join(path.dirname(files.cert), 'ca.crt');
  fs.writeFileSync(clientCa, `two of them\n${authority.certificate}\n${new Authority('Other').certificate}`);
  const { x509, pem } = await ServerCertificate.read({ ...files, clientCa });
  expect([x509.subject, pem.cert]).toEqual(['CN=first', fs.readFileSync(files.cert, 'utf8')]);
});

test('the chain comes after the certificate [R-821]', async () => {
  const files = pairOnDisk();
  fs.appendFileSync(files.cert, authority.certificate);
  expect((await ServerCertificate.read(files)).x509.subject).toBe('CN=first');
  fs.writeFileSync(files.cert, authority.certificate + fs.readFileSync(files.cert, 'utf8'));
  expect(await faultsOf(files)).toMatchObject([{ file: 'key' }]);
});

describe('files that cannot be used are reported by name, without their content [R-821]', () => {
  const pem = { type: 'pkcs8', format: 'pem' } as const;
  const encrypted = () =>
    generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey.export({
      ...{ ...pem, cipher: 'aes-256-cbc', passphrase: 'secret' },
    });
  const weak = () => generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export(pem);
  const directory = (file: string) => {
    fs.rmSync(file);
    fs.mkdirSync(file);
  };
  const holding = (text: () => string | Buffer) => (file: string) => fs.writeFileSync(file, text());
  const CASES: readonly (readonly [string, 'cert' | 'key', (file: string) => void])[] = [
    ['an absent certificate', 'cert', (file) => fs.rmSync(file)],
    ['a directory', 'cert', directory],
    ['a file that is far too large', 'key', (file) => fs.truncateSync(file, 2 << 20)],
    ['an empty certificate', 'cert', holding(() => '')],
    ['a certificate cut short', 'cert', (file) => fs.truncateSync(file, 200)],
    [
      'a certificate with invalid bytes',
      'cert',
      holding(() => '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'),
    ],
    ['no key', 'key', holding(() => 'secret')],
    ['a key with a passphrase', 'key', holding(encrypted)],
    ['the key of another certificate', 'key', holding(() => authority.issue().key)],
    ['a key of another type', 'key', holding(weak)],
  ];
  test.each(CASES)('%s', async (_what, which, spoil) => {
    const files = pairOnDisk();
    spoil(files[which]);
    const faults = await faultsOf(files);
    expect(faults).toMatchObject([{ file: which, message: expect.stringContaining(files[which]) as string }]);
    expect(faults[0]?.message).not.toMatch(/BEGIN|secret/);
  });

  test('authorities without a certificate, with which no client could connect [R-821]', async () => {
    const files = pairOnDisk();
    expect(await faultsOf({ ...files, clientCa: files.key })).toMatchObject([{ file: 'clientCa' }]);
  });

  test('of several files every fault is reported, with its file [R-841]', async () => {
    const files = pairOnDisk();
    fs.rmSync(files.cert);
    fs.writeFileSync(files.key, 'secret');
    expect((await faultsOf({ ...files, clientCa: files.key })).map(({ file }) => file)).toEqual([
      ...['cert', 'key', 'clientCa'],
    ]);
  });
});

/** @param seen where the files are looked for. */
async function followed(directory = scratchDirectory(), seen = directory) {
  writePair(directory, authority.issue({ commonName: 'first' }));
  const files = { cert: path.join(seen, 'tls.crt'), key: path.join(seen, 'tls.key'), clientCa: undefined };
  const presented: string[] = [];
  const troubles: string[] = [];
  const silent = () => undefined;
  const error = (fields: object) => void troubles.push((fields as { reason: string }).reason);
  const log: Log = { debug: silent, info: silent, warn: silent, error };
  const certificate = await ServerCertificate.read(files, POLL_MS);
  certificate.follow(log, () => presented.push(certificate.x509.subject));
  onTestFinished(() => certificate.stop());
  const renew = (wish: Wish) => writePair(directory, authority.issue(wish));
  return { certificate, files, presented, troubles, renew };
}

test('files that do not change are left alone [R-821]', async () => {
  const { presented, troubles } = await followed();
  await sleep(SETTLED_MS);
  expect([presented, troubles]).toEqual([[], []]);
});

test('a pair that is written over the old one is used, once [R-821]', async () => {
  const { presented, troubles, renew } = await followed();
  renew({ commonName: 'second' });
  await expect.poll(() => presented).toEqual(['CN=second']);
  await sleep(SETTLED_MS);
  expect([presented, troubles]).toEqual([['CN=second'], []]);
});

test('a pair that was written before the files are followed is used [R-821]', async () => {
  const files = pairOnDisk();
  const certificate = await ServerCertificate.read(files, POLL_MS);
  writePair(path.dirname(files.cert), authority.issue({ commonName: 'second' }));
  const silent = () => undefined;
  certificate.follow({ debug: silent, info: silent, warn: silent, error: silent }, silent);
  onTestFinished(() => certificate.stop());
  await expect.poll(() => certificate.x509.subject).toBe('CN=second');
});

test('a pair whose links now lead elsewhere is used: certbot, and the secrets of Kubernetes [R-821]', async () => {
  const root = scratchDirectory();
  const place = (name: string) => path.join(root, name);
  fs.mkdirSync(place('..one'));
  fs.mkdirSync(place('..two'));
  fs.symlinkSync('..one', place('..data'));
  for (const file of ['tls.crt', 'tls.key']) fs.symlinkSync(path.join('..data', file), place(file));
  const { presented, troubles } = await followed(place('..one'), root);
  writePair(place('..two'), authority.issue({ commonName: 'second' }));
  fs.symlinkSync('..two', place('..new'));
  fs.renameSync(place('..new'), place('..data'));
  await expect.poll(() => presented).toEqual(['CN=second']);
  expect(troubles).toEqual([]);
});

test('a pair that is written file by file is not used before it is complete [R-821]', async () => {
  const { files, presented, troubles } = await followed();
  const { certificate, key } = authority.issue({ commonName: 'second' });
  // Half of it keeps changing, so that no two looks see the same.
  let written = performance.now();
  let longest = 0;
  const write = (file: string, text: string) => {
    // Renamed into place: two looks at a file that is being rewritten may both find it empty.
    fs.writeFileSync(`${file}.new`, text);
    fs.renameSync(`${file}.new`, file);
    longest = Math.max(longest, performance.now() - written);
    written = performance.now();
  };
  const until = performance.now() + 10 * POLL_MS;
  for (let i = 0; performance.now() < until; i++) {
    await new Promise(setImmediate);
    write(files.cert, `${certificate}${'\n'.repeat(i)}`);
  }
  write(files.key, key);
  await expect.poll(() => presented).toEqual(['CN=second']);
  // Where the machine held this up for as long as between two looks, the half of it was not changing.
  if (longest < POLL_MS) expect(troubles).toEqual([]);
});

test('files that do not fit change nothing and are reported once for each change [R-821]', async () => {
  const { files, presented, troubles, renew } = await followed();
  fs.writeFileSync(files.key, authority.issue().key);
  await expect.poll(() => troubles).toHaveLength(1);
  await sleep(SETTLED_MS);
  fs.rmSync(files.key);
  await expect.poll(() => troubles).toHaveLength(2);
  await sleep(SETTLED_MS);
  renew({ commonName: 'late', days: -1 });
  await expect.poll(() => troubles).toHaveLength(3);
  expect(troubles[2]).toMatch(/has expired/);
  expect(presented).toEqual([]);
  renew({ commonName: 'second' });
  await expect.poll(() => presented).toEqual(['CN=second']);
});

test('a pair that is not valid yet is reported once, and used from then on [R-821]', async () => {
  const { certificate, presented, troubles, renew } = await followed();
  certificate.stop();
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const from = Date.now() + 86_400_000;
  renew({ commonName: 'early', from });
  expect(await certificate.reload()).toBe(false);
  expect([presented.length, troubles.length]).toEqual([0, 1]);
  await vi.advanceTimersByTimeAsync(86_400_000 + 1000);
  await certificate.reload();
  expect([presented, troubles.length]).toEqual([['CN=early'], 1]);
});

test('a reload reads at once, uses a new pair, returns whether it is in use, and never rejects [R-821]', async () => {
  const { certificate, files, presented, troubles, renew } = await followed();
  certificate.stop();
  expect([await certificate.reload(), presented]).toEqual([true, []]);
  renew({ commonName: 'second' });
  expect([await certificate.reload(), presented]).toEqual([true, ['CN=second']]);
  fs.writeFileSync(files.key, '');
  expect(await Promise.all([certificate.reload(), certificate.reload()])).toEqual([false, false]);
  expect([presented.length, troubles.length]).toEqual([1, 2]);
});

test('the pair is presented again once a day, which renews the keys of session tickets [R-821]', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { presented } = await followed();
  await vi.advanceTimersByTimeAsync(86_400_000);
  expect(presented).toEqual(['CN=first']);
});
