import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { signForS3 } from '../../src/content/content-bucket.js';

// The examples of "Authenticating Requests (AWS Signature Version 4)" in the API reference of Amazon S3.
const CREDENTIALS = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const AT = new Date('2013-05-24T00:00:00Z');
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

test('[R-864] the published example of a PUT has its published signature', () => {
  const { authorization } = signForS3(
    {
      method: 'PUT',
      url: new URL('https://examplebucket.s3.amazonaws.com/test$file.text'),
      headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      sha256: sha256('Welcome to Amazon S3.'),
    },
    CREDENTIALS,
    'us-east-1',
    AT,
  );
  expect(authorization).toBe(
    'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,' +
      'SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,' +
      'Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  );
});

test('[R-864] the published example of a GET has its published signature', () => {
  const { authorization } = signForS3(
    {
      method: 'GET',
      url: new URL('https://examplebucket.s3.amazonaws.com/test.txt'),
      headers: { Range: 'bytes=0-9' },
      sha256: sha256(''),
    },
    CREDENTIALS,
    'us-east-1',
    AT,
  );
  expect(authorization).toContain(
    'Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  );
});

test('the token of temporary credentials is sent and signed', () => {
  const request = {
    ...{ method: 'PUT', url: new URL('http://127.0.0.1:9000/b/k'), headers: {} },
    sha256: sha256(''),
  };
  const headers = signForS3(request, { ...CREDENTIALS, sessionToken: 'token' }, 'us-east-1', AT);
  expect(headers['x-amz-security-token']).toBe('token');
  expect(headers['authorization']).toContain('x-amz-date;x-amz-security-token');
  expect(headers['host']).toBe('127.0.0.1:9000');
});
