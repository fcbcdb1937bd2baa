/**
 * Content in a bucket that speaks the interface of S3, each under `<prefix><hash>`. A bucket shows an object whole or
 * not at all, and checks it against the hash that was signed with it.
 */
import { setTimeout } from 'node:timers';
import { createHash, createHmac } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import type { ContentStore } from './content-store.js';

export interface BucketOptions {
  readonly bucket: string;
  /** Where the service is, such as https://s3.eu-central-1.amazonaws.com. The bucket becomes the first part of the path. */
  readonly endpoint: string | URL;
  readonly region: string;
  /** A function is asked before every request: temporary credentials expire. */
  readonly credentials: AwsCredentials | (() => AwsCredentials | Promise<AwsCredentials>);
  /** What the names of the objects begin with. */
  readonly prefix?: string | undefined;
}

const ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;
/** For all attempts together: what is on its way takes memory. */
const PATIENCE_MS = 60_000;

export class ContentBucket implements ContentStore {
  readonly #options: BucketOptions;
  readonly #base: URL | undefined;
  readonly #client: typeof http | typeof https;
  readonly #agent: http.Agent;

  readonly #patienceMs: number;

  /** @param patienceMs tests have less of it. */
  constructor(options: BucketOptions, patienceMs = PATIENCE_MS) {
    this.#patienceMs = patienceMs;
    this.#options = options;
    const given: unknown = options.endpoint;
    const endpoint = typeof given === 'string' || given instanceof URL ? String(given) : '';
    const base = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
    // Each content is refused then: a deployment that names no bucket must not end the application.
    this.#base = base && /^https?:$/.test(base.protocol) ? base : undefined;
    this.#client = this.#base?.protocol === 'https:' ? https : http;
    this.#agent = new this.#client.Agent({ keepAlive: true, maxSockets: 8 });
  }

  /**
   * See `ContentStore.put`. Tries a few times within some seconds, and a minute at most, the wait for credentials and for
   * other content included. @throws Error when the bucket did not take it.
   */
  async put(content: Uint8Array, sha256: string): Promise<void> {
    if (!this.#base) throw new TypeError('the endpoint of a bucket begins with http:// or https://');
    const late = AbortSignal.timeout(this.#patienceMs);
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#try(this.#base, content, sha256, late);
      if (failure === undefined) return;
      if (attempt === ATTEMPTS || !failure.passing || late.aborted) throw failure.error;
      const longest = FIRST_PAUSE_MS * 4 ** (attempt - 1);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * longest));
    }
  }

  async #try(
    base: URL,
    content: Uint8Array,
    sha256: string,
    late: AbortSignal,
  ): Promise<{ error: Error; passing: boolean } | undefined> {
    const { credentials } = this.#options;
    let status: number;
    try {
      const current = typeof credentials === 'function' ? await unless(late, credentials()) : credentials;
      status = await this.#send(base, content, sha256, current, late);
    } catch (cause) {
      return { error: new Error('the bucket could not be reached', { cause }), passing: true };
    }
    if (status === 200) return undefined;
    const passing = status >= 500 || status === 408 || status === 429;
    return { error: new Error(`the bucket answered ${status}`), passing };
  }

  #send(
    base: URL,
    content: Uint8Array,
    sha256: string,
    credentials: AwsCredentials,
    late: AbortSignal,
  ): Promise<number> {
    const { bucket, prefix = '', region } = this.#options;
    const url = new URL(base);
    url.pathname = `${url.pathname.replace(/\/+$/, '')}/${bucket}/${prefix}${sha256}`;
    const headers = { 'content-type': 'application/octet-stream' };
    const signed = signForS3({ method: 'PUT', url, headers, sha256 }, credentials, region, new Date());
    return new Promise((resolve, reject) => {
      const request = this.#client.request(url, {
        method: 'PUT',
        agent: this.#agent,
        headers: { ...signed, 'content-length': String(content.length) },
        signal: late,
      });
      request.on('error', reject);
      request.on('close', () => reject(new Error('the connection was closed without an answer')));
      request.on('response', (response) => {
        response.on('error', reject);
        response.on('end', () => resolve(response.statusCode ?? 0));
        response.resume();
      });
      request.end(content);
    });
  }
}

/** @throws the reason of the signal when it comes first. */
async function unless<T>(late: AbortSignal, done: T | Promise<T>): Promise<T> {
  let abort: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(new Error('there was no answer in time', { cause: late.reason }));
  });
  late.addEventListener('abort', abort);
  if (late.aborted) abort();
  try {
    return await Promise.race([done, aborted]);
  } finally {
    late.removeEventListener('abort', abort);
  }
}

/*
 * AWS Signature Version 4 for requests to S3, as Amazon publishes it ("Signature Calculations for the Authorization
 * Header: Transferring Payload in a Single Chunk"). Every header that is given is signed.
 */

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
