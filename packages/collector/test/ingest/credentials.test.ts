import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { CredentialsUnusable, readCredentials, type CredentialFiles } from '../../src/ingest/credentials.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { Authority, writePair, type Wish } from '../running/certificates.js';

const authority = new Authority();

function pairOnDisk(
  wish: Wish = { commonName: 'collector' },
): CredentialFiles & { cert: string; key: string } {
  const directory = scratchDirectory();
  const [, cert = '', , key = ''] = writePair(directory, authority.issue(wish));
  return { cert, key, clientCa: undefined };
}

async function reasonOf(files: CredentialFiles): Promise<string> {
  const error: unknown = await readCredentials(files).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CredentialsUnusable);
  return (error as Error).message;
}

test('a pair that fits is read, and the authorities beside it [R-821]', async () => {
  const files = pairOnDisk();
  const clientCa = path.join(path.dirname(files.cert), 'ca.crt');
  fs.writeFileSync(clientCa, `two of them\n${authority.certificate}\n${new Authority('Other').certificate}`);
  const { certificate, cert } = await readCredentials({ ...files, clientCa });
  expect(certificate.subject).toBe('CN=collector');
  expect(cert).toEqual(fs.readFileSync(files.cert));
});

test('the chain stands behind the certificate [R-821]', async () => {
  const files = pairOnDisk();
  fs.appendFileSync(files.cert, authority.certificate);
  expect((await readCredentials(files)).certificate.subject).toBe('CN=collector');
  fs.writeFileSync(files.cert, authority.certificate + fs.readFileSync(files.cert, 'utf8'));
  expect(await reasonOf(files)).toMatch(/is not that of the first certificate/);
});

describe('what cannot be used is told with the name of the file and nothing of what is in it [R-821]', () => {
  const passphrase = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' } as const;
  const encrypted = () =>
    generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey.export(passphrase);
  const weak = () =>
    generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  const CASES: readonly (readonly [string, 'cert' | 'key', (file: string) => void, RegExp])[] = [
    ['a certificate that is not there', 'cert', (file) => fs.rmSync(file), /cannot be read: ENOENT/],
    [
      'a directory',
      'cert',
      (file) => {
        fs.rmSync(file);
        fs.mkdirSync(file);
      },
      /is not a file/,
    ],
    ['a file that is far too large', 'key', (file) => fs.truncateSync(file, 2 << 20), /is too large/],
    ['an empty certificate', 'cert', (file) => fs.writeFileSync(file, ''), /holds no certificate in PEM/],
    ['a certificate cut short', 'cert', (file) => fs.truncateSync(file, 200), /holds no certificate in PEM/],
    [
      'a certificate of other bytes',
      'cert',
      (file) => fs.writeFileSync(file, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'),
      /holds a certificate that cannot be read/,
    ],
    ['no key', 'key', (file) => fs.writeFileSync(file, 'secret'), /holds no private key in PEM/],
    [
      'a key with a passphrase',
      'key',
      (file) => fs.writeFileSync(file, encrypted()),
      /is protected by a passphrase/,
    ],
    [
      'the key of another',
      'key',
      (file) => fs.writeFileSync(file, authority.issue().key),
      /is not that of the first/,
    ],
    ['a key of another type', 'key', (file) => fs.writeFileSync(file, weak()), /is not that of the first/],
  ];
  test.each(CASES)('%s', async (_what, which, spoil, why) => {
    const files = pairOnDisk();
    spoil(files[which]);
    const reason = await reasonOf(files);
    expect(reason).toMatch(why);
    expect(reason).toContain(files[which]);
    expect(reason).not.toMatch(/BEGIN|secret/);
  });

  test('authorities without a certificate, which would let no one in [R-822]', async () => {
    const files = pairOnDisk();
    expect(await reasonOf({ ...files, clientCa: files.key })).toBe(
      `${files.key} holds no certificate in PEM`,
    );
  });
});

test('of several files all that is wrong is told, and of which [R-841]', async () => {
  const files = pairOnDisk();
  fs.rmSync(files.cert);
  fs.writeFileSync(files.key, 'secret');
  const error: unknown = await readCredentials({ ...files, clientCa: files.key }).catch(
    (thrown: unknown) => thrown,
  );
  expect((error as CredentialsUnusable).faults).toEqual([
    { file: 'cert', message: `${files.cert} cannot be read: ENOENT` },
    { file: 'key', message: `${files.key} holds no private key in PEM` },
    { file: 'clientCa', message: `${files.key} holds no certificate in PEM` },
  ]);
});
