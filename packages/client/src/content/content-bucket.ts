/**
 * Content in a bucket that speaks the interface of S3, each under `<prefix><hash>`. A bucket shows an object whole or
 * not at all, and checks it against the hash that was signed with it.
 */
import http from 'node:http';
import https from 'node:https';
import { signForS3, type AwsCredentials } from './aws-signature.js';
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
