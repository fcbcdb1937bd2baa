import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ContentDirectory } from '../../src/content/content-store.js';
import { fakeCollector } from '../running/fake-collector.js';
import { hurriedClient, temporaryDirectory } from '../running/hurried-client.js';

const sha256 = (content: Uint8Array | string) => createHash('sha256').update(content).digest('hex');
const placeOf = (directory: string, hash: string) => path.join(directory, hash.slice(0, 2), hash);

test('[R-864] content is stored before its event is captured, and the event names its hash', async () => {
  const collector = await fakeCollector();
  const content = temporaryDirectory();
  const { log } = hurriedClient({ url: collector.url, content });
  const run = log.startRun({ inputs: { prompt: 'p' } }, { content: 'the image' });
  run.artifact({ artifact_type: 'reasoning_trace', mime_type: 'text/plain' }, { content: 'the trace' });
  run.output({ summary: 's' }, { content: Buffer.from('the text') });
  run.outcome({ outcome_type: 'validated' }, { content: 'the evidence' });
  await log.flush();
  const uri = (text: string) => `sha256:${sha256(text)}`;
  const payloads = collector.accepted.map(({ event }) => event);
  expect(payloads).toContainEqual(
    expect.objectContaining({ inputs: { prompt: 'p', input_uri: uri('the image') } }),
  );
  for (const payload of [
    {
      artifact: { artifact_type: 'reasoning_trace', mime_type: 'text/plain', artifact_uri: uri('the trace') },
    },
    { output: { summary: 's', output_uri: uri('the text') } },
    { outcome: { outcome_type: 'validated', evidence_uri: uri('the evidence') } },
  ]) {
    expect(payloads).toContainEqual(expect.objectContaining(payload));
  }
  const file = placeOf(content, sha256('the text'));
  expect(fs.readFileSync(file, 'utf8')).toBe('the text');
  expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  expect(fs.statSync(content).mode & 0o777).toBe(0o700);
});

test('[R-864] an event whose content cannot be stored is refused to its caller', async () => {
  const collector = await fakeCollector();
  const { log, refusals } = hurriedClient({ url: collector.url, content: '/dev/null/content' });
  const run = log.startRun({});
  await expect(run.output({}, { content: 'x' })).rejects.toMatchObject({ name: 'ContentNotStored' });
  await log.flush();
  expect(collector.accepted).toHaveLength(1);
  expect(refusals).toHaveLength(1);
});

test('[R-864] a later change of a buffer does not change the stored content', async () => {
  const collector = await fakeCollector();
  const content = temporaryDirectory();
  const { log } = hurriedClient({ url: collector.url, content });
  const bytes = Buffer.from('before');
  log.startRun({}, { content: bytes });
  bytes.write('after!');
  await log.flush();
  expect(fs.readFileSync(placeOf(content, sha256('before')), 'utf8')).toBe('before');
});

test('[R-864] content that is stored repeatedly is one file, and a damaged file is replaced', async () => {
  const directory = temporaryDirectory();
  const store = new ContentDirectory(directory);
  const content = randomBytes(300_000);
  const hash = sha256(content);
  await Promise.all([1, 2, 3, 4].map(() => store.put(content, hash)));
  const file = placeOf(directory, hash);
  fs.truncateSync(file, 1000);
  await store.put(content, hash);
  expect(fs.readFileSync(file).equals(content)).toBe(true);
  const { ino } = fs.statSync(file);
  await new ContentDirectory(directory).put(content, hash);
  expect(fs.statSync(file).ino).toBe(ino);
  expect(fs.readdirSync(path.dirname(file))).toEqual([hash]);
});

test('[R-864] a failed write leaves no partial file', async () => {
  const directory = temporaryDirectory();
  const content = randomBytes(1000);
  const hash = sha256(content);
  // The name is taken by a directory: the last step fails.
  fs.mkdirSync(placeOf(directory, hash), { recursive: true });
  await expect(new ContentDirectory(directory).put(content, hash)).rejects.toThrow();
  expect(fs.readdirSync(path.join(directory, hash.slice(0, 2)))).toEqual([hash]);
});

test.each(['put', 'putNow'] as const)(
  '[R-864] a file of the right length with other bytes is replaced (%s)',
  async (put) => {
    const directory = temporaryDirectory();
    const content = randomBytes(1000);
    const hash = sha256(content);
    const file = placeOf(directory, hash);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, randomBytes(1000));
    await new ContentDirectory(directory)[put](content, hash);
    expect(fs.readFileSync(file).equals(content)).toBe(true);
  },
);
