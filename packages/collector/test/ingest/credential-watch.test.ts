import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { CredentialWatch, readCredentials, type CredentialFiles } from '../../src/ingest/credentials.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { Authority, writePair } from '../running/certificates.js';

const POLL_MS = 20;
/** Many looks, on a machine that is busy. */
const SETTLED_MS = 400;
const authority = new Authority();

async function watched(directory: string, seen = directory) {
  writePair(directory, authority.issue({ commonName: 'first' }));
  const files: CredentialFiles = {
    cert: path.join(seen, 'tls.crt'),
    key: path.join(seen, 'tls.key'),
    clientCa: undefined,
  };
  const used: string[] = [];
  const troubles: string[] = [];
  const watch = new CredentialWatch({
    files,
    credentials: await readCredentials(files),
    onChange: ({ certificate }) => used.push(certificate.subject),
    onTrouble: (reason) => troubles.push(reason),
    pollMs: POLL_MS,
  });
  watch.start();
  onTestFinished(() => watch.stop());
  return { watch, files, used, troubles };
}

test('files that do not change are left alone [R-821]', async () => {
  const { used, troubles } = await watched(scratchDirectory());
  await sleep(SETTLED_MS);
  expect([used, troubles]).toEqual([[], []]);
});

test('a pair that is written over the old one is used, once [R-821]', async () => {
  const directory = scratchDirectory();
  const { used, troubles } = await watched(directory);
  writePair(directory, authority.issue({ commonName: 'second' }));
  await expect.poll(() => used).toEqual(['CN=second']);
  await sleep(SETTLED_MS);
  expect([used, troubles]).toEqual([['CN=second'], []]);
});

test('a pair behind links that now lead elsewhere is used: certbot, and the secrets of Kubernetes [R-821]', async () => {
  const root = scratchDirectory();
  const place = (name: string) => path.join(root, name);
  fs.mkdirSync(place('..one'));
  fs.mkdirSync(place('..two'));
  fs.symlinkSync('..one', place('..data'));
  for (const file of ['tls.crt', 'tls.key']) fs.symlinkSync(path.join('..data', file), place(file));
  const { used, troubles } = await watched(place('..one'), root);
  writePair(place('..two'), authority.issue({ commonName: 'second' }));
  fs.symlinkSync('..two', place('..new'));
  fs.renameSync(place('..new'), place('..data'));
  await expect.poll(() => used).toEqual(['CN=second']);
  expect(troubles).toEqual([]);
});

test('a pair that is written file by file is not tried before it is whole [R-821]', async () => {
  const directory = scratchDirectory();
  const { files, used, troubles } = await watched(directory);
  const { certificate, key } = authority.issue({ commonName: 'second' });
  // The half of it keeps changing, so no two looks see the same.
  const until = performance.now() + 10 * POLL_MS;
  for (let i = 0; performance.now() < until; i++) {
    await new Promise(setImmediate);
    fs.writeFileSync(files.cert, `${certificate}${'\n'.repeat(i)}`);
  }
  fs.writeFileSync(files.key, key);
  await expect.poll(() => used).toEqual(['CN=second']);
  expect(troubles).toEqual([]);
});

test('what does not fit is told once for each change, and kept out [R-821]', async () => {
  const { files, used, troubles } = await watched(scratchDirectory());
  fs.writeFileSync(files.key, authority.issue().key);
  await expect.poll(() => troubles).toHaveLength(1);
  await sleep(SETTLED_MS);
  fs.rmSync(files.key);
  await expect.poll(() => troubles).toHaveLength(2);
  await sleep(SETTLED_MS);
  const expired = authority.issue({ commonName: 'late', days: -1 });
  writePair(path.dirname(files.cert), expired);
  await expect.poll(() => troubles).toHaveLength(3);
  expect(troubles).toEqual([
    expect.stringMatching(/is not that of the first/),
    expect.stringMatching(/cannot be read: ENOENT/),
    expect.stringMatching(/has expired/),
  ]);
  expect(used).toEqual([]);
  writePair(path.dirname(files.cert), authority.issue({ commonName: 'second' }));
  await expect.poll(() => used).toEqual(['CN=second']);
});

test('a pair that is not valid yet is kept out, told once, and used from then on [R-821]', async () => {
  const { files, used, troubles } = await watched(scratchDirectory());
  const from = Date.now() + 86_400_000;
  writePair(path.dirname(files.cert), authority.issue({ commonName: 'early', from }));
  await expect
    .poll(() => troubles)
    .toEqual([expect.stringMatching(/is not valid before .+; it is taken then/)]);
  await sleep(SETTLED_MS);
  expect([used.length, troubles.length]).toEqual([0, 1]);
  onTestFinished(() => void vi.useRealTimers());
  vi.setSystemTime(from + 1000);
  await expect.poll(() => used).toEqual(['CN=early']);
});

test('a reload reads at once, uses what is new, says whether the files are in use, and rejects never [R-821]', async () => {
  const directory = scratchDirectory();
  const { watch, files, used, troubles } = await watched(directory);
  watch.stop();
  expect([await watch.reload(), used]).toEqual([true, []]);
  writePair(directory, authority.issue({ commonName: 'second' }));
  expect([await watch.reload(), used]).toEqual([true, ['CN=second']]);
  fs.writeFileSync(files.key, '');
  expect(await Promise.all([watch.reload(), watch.reload()])).toEqual([false, false]);
  expect([used.length, troubles.length]).toEqual([1, 2]);
});
