/**
 * The options of a client. Errors in code throw a RangeError. Errors of a deployment, such as an empty
 * directory name or a key of the wrong length, do not throw: they are reported when the value is used.
 */
import type { Profile } from '@clinical-events/protocol';
import { type BucketOptions, ContentBucket } from './content/content-bucket.js';
import { ContentDirectory, type ContentStore } from './content/content-store.js';
import { type EventSource, MAX_EVENT_BYTES } from './event.js';
import { unknownName } from './hostile-values.js';
import type { Listeners } from './listeners.js';
import type { Sampling } from './sampling.js';
import type { Route } from './sending/dial.js';
import type { Durability, SpoolOptions } from './spool/spool.js';

export interface SpoolPlace {
  /** A directory for this application; its processes may share it. Not needed with `memory`. */
  readonly directory?: string | undefined;
  /** When an event counts as captured; default `fsync`. */
  readonly durability?: Durability | undefined;
  /** 32 bytes: encrypts the events on disk with AES-256-GCM. With an invalid key all events are refused. */
  readonly key?: Uint8Array | undefined;
  /** Events that would exceed this size are refused; default 8 GiB. */
  readonly maxBytes?: number | undefined;
}

export interface ClientOptions<P extends Profile = 'minimum'> extends Listeners {
  /** Address of the collector, http or https; default COLLECTOR_URL from the environment. */
  readonly url?: string | URL | undefined;
  /**
   * A function is called before every request and must return the key, not a promise, so that the key can be
   * rotated. Default COLLECTOR_KEY from the environment.
   */
  readonly apiKey?: string | (() => string) | undefined;
  /** Where events wait until the collector has stored them. A string is a directory. */
  readonly spool: string | SpoolPlace;
  /** Origin in `system_metadata` of events; host name and process id by default. */
  readonly app?: EventSource | undefined;
  /** Profile of the API key, against which events are validated; default `minimum`. */
  readonly validate?: P | undefined;
  /** Which runs are captured; default all. */
  readonly sampling?: Sampling | undefined;
  /** Where the content that events refer to is stored: a directory, a bucket, or another store. */
  readonly content?: string | BucketOptions | ContentStore | undefined;
  /** Maximum number of concurrent requests; default 128. */
  readonly concurrency?: number | undefined;
  /**
   * Larger events are refused; default 64 MiB, the largest `--max-body-bytes` of a collector (whose default
   * is 1 MiB).
   */
  readonly maxEventBytes?: number | undefined;
  /** Authorities for this client alone, and a client certificate. */
  readonly tls?: Route['tls'];
  /** An HTTP proxy that tunnels by CONNECT, such as `http://user:password@proxy.example.org:3128`. */
  readonly proxy?: string | URL | undefined;
  /**
   * Whether to print captures, requests and answers on standard error: kinds, ids and statuses, without
   * contents.
   */
  readonly debug?: boolean | undefined;
}

type Options = ClientOptions<Profile>;

/** Records, so that the compiler checks that no name is missing. */
const namesOf = (names: Readonly<Record<string, true>>) => Object.keys(names);
const OPTION_NAMES = namesOf({
  ...{ url: true, apiKey: true, spool: true, app: true, validate: true, sampling: true, content: true },
  ...{
    concurrency: true,
    maxEventBytes: true,
    tls: true,
    proxy: true,
    debug: true,
    onRefused: true,
    onQuarantine: true,
    onTrouble: true,
  },
} satisfies Record<keyof Options, true>);
const SPOOL_NAMES = namesOf({
  ...{ directory: true, durability: true, key: true, maxBytes: true },
} satisfies Record<keyof SpoolPlace, true>);
const APP_NAMES = namesOf({
  ...{ hostname: true, app_name: true, proc_id: true },
} satisfies Record<keyof EventSource, true>);
const SAMPLING_NAMES = namesOf({
  ...{ rate: true, risk: true, window: true, afterModelChange: true },
} satisfies Record<keyof Sampling, true>);
const BUCKET_NAMES = namesOf({
  ...{ bucket: true, endpoint: true, region: true, credentials: true, prefix: true },
} satisfies Record<keyof BucketOptions, true>);

/** @throws RangeError */
export function checkChoices(options: Options): void {
  if (!isObject(options)) throw new RangeError('createClient requires options');
  checkNames(options);
  const { concurrency = 1, maxEventBytes = 1, validate = 'minimum', spool } = options;
  if (typeof spool !== 'string' && !isObject(spool)) {
    throw new RangeError('spool must be a directory, or an object such as { directory }');
  }
  const { durability = 'fsync' } = typeof spool === 'string' ? {} : spool;
  if (!(Number.isInteger(concurrency) && concurrency >= 1)) {
    throw new RangeError('concurrency must be an integer of at least 1');
  }
  if (!(Number.isInteger(maxEventBytes) && maxEventBytes >= 1 && maxEventBytes <= MAX_EVENT_BYTES)) {
    throw new RangeError(`maxEventBytes must be an integer from 1 to ${MAX_EVENT_BYTES}`);
  }
  if (!['minimum', 'full'].includes(validate)) throw new RangeError('validate must be minimum or full');
  // A typo must not weaken durability.
  if (!['fsync', 'os', 'memory'].includes(durability)) {
    throw new RangeError('durability must be fsync, os or memory');
  }
}

/** @throws RangeError for an unknown name. */
function checkNames(options: Options): void {
  const { spool, app, sampling, content } = options;
  const { window, afterModelChange }: Partial<Sampling> = isObject(sampling) ? sampling : {};
  const bucket = isObject(content) && 'bucket' in content ? content : undefined;
  const places: readonly (readonly [string, unknown, readonly string[]])[] = [
    ['the options of createClient', options, OPTION_NAMES],
    ['spool', spool, SPOOL_NAMES],
    ['app', app, APP_NAMES],
    ['sampling', sampling, SAMPLING_NAMES],
    ['sampling.window', window, ['runs', 'ms', 'bytes']],
    ['sampling.afterModelChange', afterModelChange, ['ms', 'rate']],
    ['content', bucket, BUCKET_NAMES],
  ];
  for (const [what, given, known] of places) {
    const sentence = isObject(given) ? unknownName(what, given, known) : undefined;
    if (sentence !== undefined) throw new RangeError(sentence);
  }
}

/** Address and key from the options, or from the environment. */
export function destinationOf({ url, apiKey }: Options): Pick<Options, 'url' | 'apiKey'> {
  const { COLLECTOR_URL, COLLECTOR_KEY } = process.env;
  return { url: url ?? COLLECTOR_URL, apiKey: apiKey ?? COLLECTOR_KEY };
}

export function spoolOptions(spool: Options['spool']): SpoolOptions {
  const place = typeof spool === 'string' ? { directory: spool } : spool;
  const { directory, durability = 'fsync', key, maxBytes } = place;
  return {
    ...{ directory, durability },
    ...(key !== undefined && { key }),
    ...(maxBytes !== undefined && { maxBytes }),
  };
}

/** @throws RangeError */
export function contentStore(content: Options['content']): ContentStore | undefined {
  if (content === undefined) return undefined;
  if (typeof content === 'string') return new ContentDirectory(content);
  if (isObject(content)) {
    if ('bucket' in content) return new ContentBucket(content);
    if (typeof content.put === 'function') return content;
  }
  throw new RangeError(
    'content must be a directory, a bucket such as { bucket, endpoint, … }, or a store with put',
  );
}

function isObject<T>(value: T): value is T & object {
  return typeof value === 'object' && value !== null;
}
