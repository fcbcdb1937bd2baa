import { createHash } from 'node:crypto';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { AwsV4Signer } from 'aws4fetch';
import { expect, onTestFinished, test } from 'vitest';
import { ContentBucket } from '../../src/content/content-bucket.js';
import { fakeCollector } from '../running/fake-collector.js';
import { hurriedClient } from '../running/hurried-client.js';

const CREDENTIALS = { accessKeyId: 'id', secretAccessKey: 'secret' };
const sha256 = (content: Uint8Array | string) => createHash('sha256').update(content).digest('hex');

/** A bucket service that checks signatures. It answers with `statuses` first. */
async function bucketService(statuses: number[] = []) {
  const objects = new Map<string, string>();
  const server = http.createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const body = Buffer.concat(pieces);
      const given = request.headers as Record<string, string>;
      const signature = new AwsV4Signer({
        ...{ method: request.method ?? '', url: `http://${given['host']}${request.url}` },
        headers: { 'x-amz-content-sha256': sha256(body) },
        ...{ ...CREDENTIALS, service: 's3', region: 'eu-central-1', datetime: given['x-amz-date'] ?? '' },
      }).authHeader();
      signature.then(
        (expected) => answer(response, request, body, given['authorization'] === expected),
        () => response.destroy(),
      );
    });
  });
  const answer = (
    response: http.ServerResponse,
    request: http.IncomingMessage,
    body: Buffer,
    signed: boolean,
  ) => {
    const status = statuses.shift() ?? (signed ? 200 : 403);
    if (status === 200) objects.set(request.url ?? '', body.toString());
    response.writeHead(status).end(status === 200 ? '' : '<Error/>');
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { objects, options: { endpoint, bucket: 'evidence', region: 'eu-central-1' } };
}

test('[R-864] content is stored in a bucket under its hash by a signed request', async () => {
  const { objects, options } = await bucketService();
  const collector = await fakeCollector();
  const content = { ...options, prefix: 'ward 7+(a)/', credentials: () => Promise.resolve(CREDENTIALS) };
  const { log } = hurriedClient({ url: collector.url, content });
  await log.startRun({}).output({}, { content: 'the text' });
  await log.flush();
  expect([...objects]).toEqual([[`/evidence/ward%207%2B(a)/${sha256('the text')}`, 'the text']]);
  expect(collector.accepted.map(({ event }) => event['output'])).toContainEqual({
    output_uri: `sha256:${sha256('the text')}`,
  });
});

test('[R-864] a temporary failure of a bucket is retried', async () => {
  const { objects, options } = await bucketService([503, 500]);
  const store = new ContentBucket({ ...options, credentials: CREDENTIALS });
  await store.put(Buffer.from('x'), sha256('x'));
  expect(objects.size).toBe(1);
});

test('[R-864] a refusal by a bucket rejects with its status', async () => {
  const { options } = await bucketService();
  const wrong = { ...CREDENTIALS, secretAccessKey: 'another' };
  const store = new ContentBucket({ ...options, credentials: wrong });
  await expect(store.put(Buffer.from('x'), sha256('x'))).rejects.toThrow('the bucket answered 403');
});

test('[R-864] an unreachable bucket is given up', async () => {
  const store = new ContentBucket({
    ...{ endpoint: 'http://127.0.0.1:9', bucket: 'b', region: 'r', credentials: CREDENTIALS },
  });
  await expect(store.put(Buffer.from('x'), sha256('x'))).rejects.toThrow('the bucket could not be reached');
});

test.each(['ftp://x', ''])(
  '[R-864] a bucket at "%s" can be created, but stores nothing',
  async (endpoint) => {
    const bucket = new ContentBucket({ endpoint, bucket: 'b', region: 'r', credentials: CREDENTIALS });
    await expect(bucket.put(Buffer.from('x'), sha256('x'))).rejects.toThrow(/must begin with http/);
  },
);

test('[R-864] a bucket that never answers is given up, and so are such credentials', async () => {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => void server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const place = { endpoint, bucket: 'b', region: 'r' };
  const never = () => new Promise<typeof CREDENTIALS>(() => undefined);
  for (const credentials of [CREDENTIALS, never]) {
    const store = new ContentBucket({ ...place, credentials }, 50);
    await expect(store.put(Buffer.from('x'), sha256('x'))).rejects.toThrow('could not be reached');
  }
});

// The example of "Authenticating Requests (AWS Signature Version 4)" in the API reference of Amazon S3.
test('[R-864] the published example of a PUT has its published signature', async () => {
  const { headers } = await new AwsV4Signer({
    ...{ method: 'PUT', url: 'https://examplebucket.s3.amazonaws.com/test$file.text' },
    headers: {
      ...{ date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      'x-amz-content-sha256': sha256('Welcome to Amazon S3.'),
    },
    ...{ accessKeyId: 'AKIAIOSFODNN7EXAMPLE', region: 'us-east-1', datetime: '20130524T000000Z' },
    ...{ secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', service: 's3' },
  }).sign();
  expect(headers.get('authorization')).toBe(
    'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ' +
      'SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, ' +
      'Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  );
});
