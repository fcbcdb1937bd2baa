/**
 * AWS Signature Version 4 for requests to S3, as Amazon publishes it ("Signature Calculations for the Authorization
 * Header: Transferring Payload in a Single Chunk"). Every header that is given is signed.
 */
import { createHash, createHmac } from 'node:crypto';

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** With temporary credentials. */
  readonly sessionToken?: string | undefined;
}

export interface SignedRequest {
  readonly method: string;
  /** Without a query. */
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Of the body, in lower-case hexadecimal. */
  readonly sha256: string;
}

/** The headers to send: those given, Host, and the ones that make the signature. */
export function signForS3(
  { method, url, headers, sha256 }: SignedRequest,
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials,
  region: string,
  at: Date,
): Record<string, string> {
  const time = at.toISOString().replace(/[-:]|\.\d+/g, '');
  const day = time.slice(0, 8);
  const sent: Record<string, string> = {
    ...headers,
    host: url.host,
    'x-amz-content-sha256': sha256,
    'x-amz-date': time,
    ...(sessionToken !== undefined && { 'x-amz-security-token': sessionToken }),
  };
  const signed = Object.entries(sent)
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/\s+/g, ' ')] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(';');
  const lines = signed.map(([name, value]) => `${name}:${value}\n`).join('');
  const canonical = `${method}\n${canonicalPath(url)}\n\n${lines}\n${names}\n${sha256}`;
  const scope = `${day}/${region}/s3/aws4_request`;
  const hashed = createHash('sha256').update(canonical).digest('hex');
  const toSign = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hashed}`;
  let key: Buffer = Buffer.from(`AWS4${secretAccessKey}`);
  for (const part of [day, region, 's3', 'aws4_request']) key = hmac(key, part);
  const signature = hmac(key, toSign).toString('hex');
  const credential = `${accessKeyId}/${scope}`;
  sent['authorization'] =
    `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=${names},Signature=${signature}`;
  return sent;
}

/** Each segment is encoded once, with all but the unreserved characters of RFC 3986. */
function canonicalPath(url: URL): string {
  return url.pathname
    .split('/')
    .map((segment) => encodeURIComponent(decodeURIComponent(segment)).replace(/[!'()*]/g, percent))
    .join('/');
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
