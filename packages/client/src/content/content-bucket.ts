/**
 * Stores content in an S3-compatible bucket, each object under `<prefix><hash>`. The service shows an object
 * only when it is complete, and checks it against the signed hash.
 */
import { setTimeout } from 'node:timers';
import { AwsV4Signer } from 'aws4fetch';
import type { ContentStore } from './content-store.js';

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** For temporary credentials. */
  readonly sessionToken?: string | undefined;
}

export interface BucketOptions {
  readonly bucket: string;
  /**
   * Address of the service, such as https://s3.eu-central-1.amazonaws.com. The bucket is added to its path.
   */
  readonly endpoint: string | URL;
  readonly region: string;
  /** A function is called before every request, because temporary credentials expire. */
  readonly credentials: AwsCredentials | (() => AwsCredentials | Promise<AwsCredentials>);
  /** Prepended to the names of the objects. */
  readonly prefix?: string | undefined;
}

const ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;
/** Limit for all attempts together, because unfinished uploads occupy memory. */
const PATIENCE_MS = 60_000;

export class ContentBucket implements ContentStore {
  readonly #options: BucketOptions;
  readonly #base: URL | undefined;
  readonly #patienceMs: number;

  /** @param patienceMs shorter in tests. */
  constructor(options: BucketOptions, patienceMs = PATIENCE_MS) {
    this.#patienceMs = patienceMs;
    this.#options = options;
    const given: unknown = options.endpoint;
    const endpoint = typeof given === 'string' || given instanceof URL ? String(given) : '';
    const base = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
    // An invalid endpoint is an error of the deployment: each content is refused, and the application
    // continues.
    this.#base = base && /^https?:$/.test(base.protocol) ? base : undefined;
  }

  /**
   * See `ContentStore.put`. Retries for some seconds. Stops after a minute, including the time to obtain
   * credentials.
   * @throws Error when the bucket did not store the content.
   */
  async put(content: Uint8Array, sha256: string): Promise<void> {
    if (!this.#base) throw new TypeError('the endpoint of a bucket must begin with http:// or https://');
    const deadline = AbortSignal.timeout(this.#patienceMs);
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#try(this.#base, content, sha256, deadline);
      if (failure === undefined) return;
      if (attempt === ATTEMPTS || !failure.passing || deadline.aborted) throw failure.error;
      const longest = FIRST_PAUSE_MS * 4 ** (attempt - 1);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * longest));
    }
  }

  async #try(
    base: URL,
    content: Uint8Array,
    sha256: string,
    deadline: AbortSignal,
  ): Promise<{ error: Error; passing: boolean } | undefined> {
    let status: number;
    try {
      status = await before(deadline, this.#send(base, content, sha256, deadline));
    } catch (cause) {
      return { error: new Error('the bucket could not be reached', { cause }), passing: true };
    }
    if (status === 200) return undefined;
    const passing = status >= 500 || status === 408 || status === 429;
    return { error: new Error(`the bucket answered ${status}`), passing };
  }

  async #send(base: URL, content: Uint8Array, sha256: string, signal: AbortSignal): Promise<number> {
    const { bucket, prefix = '', region, credentials } = this.#options;
    const { accessKeyId, secretAccessKey, sessionToken } =
      typeof credentials === 'function' ? await credentials() : credentials;
    const url = new URL(base);
    const name = `${bucket}/${prefix}${sha256}`.split('/').map(encodeURIComponent).join('/');
    url.pathname = `${url.pathname.replace(/\/+$/, '')}/${name}`;
    const request = {
      ...{ method: 'PUT', url: url.href },
      headers: { 'content-type': 'application/octet-stream', 'x-amz-content-sha256': sha256 },
    };
    const signed = await new AwsV4Signer({
      ...{ ...request, accessKeyId, secretAccessKey, service: 's3', region },
      ...(sessionToken !== undefined && { sessionToken }),
    }).sign();
    const { headers } = signed as { readonly headers: Headers };
    const response = await fetch(url, {
      ...{ method: 'PUT', headers, body: content as Uint8Array<ArrayBuffer>, redirect: 'manual', signal },
    });
    await response.arrayBuffer();
    return response.status;
  }
}

/** @throws Error when the deadline passes first. */
async function before<T>(deadline: AbortSignal, done: Promise<T>): Promise<T> {
  let abort: () => void = () => undefined;
  const passed = new Promise<never>((_, reject) => {
    abort = () => reject(new Error('the time for all attempts is over', { cause: deadline.reason }));
  });
  deadline.addEventListener('abort', abort);
  if (deadline.aborted) abort();
  try {
    return await Promise.race([done, passed]);
  } finally {
    deadline.removeEventListener('abort', abort);
  }
}
