/**
 * What the options mean. What stands in the code and is none is a RangeError, at the first start or never. What a
 * deployment sets and someone can fix is not: an empty name of a directory, or a key of another length, is refused
 * where it is used, and told.
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
  /** A directory of the application's own; several processes may share it. Not needed with `memory`. */
  readonly directory?: string | undefined;
  /** When an event is captured: `fsync` when not given. */
  readonly durability?: Durability | undefined;
  /** 32 bytes; given, what lies on the disk is sealed by AES-256-GCM. For anything else but undefined all is refused. */
  readonly key?: Uint8Array | undefined;
  /** What would take the spool beyond so many bytes is refused; 8 GiB. */
  readonly maxBytes?: number | undefined;
}

export interface ClientOptions<P extends Profile = 'minimum'> extends Listeners {
  /** Where the collector is: http or https. COLLECTOR_URL in the environment when not given. */
  readonly url?: string | URL | undefined;
  /**
   * A function is asked before every request, and answers immediately: a key can be exchanged while the application runs.
   * COLLECTOR_KEY in the environment when not given.
   */
  readonly apiKey?: string | (() => string) | undefined;
  /** Where events wait until the collector has them. A text is a directory. */
  readonly spool: string | SpoolPlace;
  /** What events say of where they come from. Host name and process id are filled in. */
  readonly app?: EventSource | undefined;
  /** What is asked of an event before it is captured: the profile of the API key. `minimum` when not given. */
  readonly validate?: P | undefined;
  /** Which runs are captured; all when not given. */
  readonly sampling?: Sampling | undefined;
  /** Where the content is kept that events refer to: a directory, a bucket, or a store of one's own. */
  readonly content?: string | BucketOptions | ContentStore | undefined;
  /** How many events are sent at a time; 128. */
  readonly concurrency?: number | undefined;
  /**
   * An event of more bytes is refused to its caller; 64 MiB, which is the most that a collector can be set to take. The
   * `--max-body-bytes` of the collector is 1 MiB unless its operator has raised it.
   */
  readonly maxEventBytes?: number | undefined;
  /** Authorities for this client alone, and a client certificate. */
  readonly tls?: Route['tls'];
  /** An HTTP proxy that tunnels by CONNECT, such as `http://user:password@proxy.example.org:3128`. */
  readonly proxy?: string | URL | undefined;
  /** Prints on standard error what is captured, sent and answered: kinds, ids and statuses, no contents. */
  readonly debug?: boolean | undefined;
}

type Options = ClientOptions<Profile>;

/** By a record the compiler sees to it that none is missing. */
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
  if (!isObject(options)) throw new RangeError('createClient needs its options');
  checkNames(options);
  const { concurrency = 1, maxEventBytes = 1, validate = 'minimum', spool } = options;
  if (typeof spool !== 'string' && !isObject(spool)) {
    throw new RangeError('spool is a directory, or an object such as { directory }');
  }
  const { durability = 'fsync' } = typeof spool === 'string' ? {} : spool;
  if (!(Number.isInteger(concurrency) && concurrency >= 1)) {
    throw new RangeError('concurrency is a whole number from 1 on');
  }
  if (!(Number.isInteger(maxEventBytes) && maxEventBytes >= 1 && maxEventBytes <= MAX_EVENT_BYTES)) {
    throw new RangeError(`maxEventBytes is a whole number from 1 to ${MAX_EVENT_BYTES}`);
  }
  if (!['minimum', 'full'].includes(validate)) throw new RangeError('validate is minimum or full');
  // A slip must not weaken what is promised of an event.
  if (!['fsync', 'os', 'memory'].includes(durability)) {
    throw new RangeError('durability is fsync, os or memory');
  }
}

/** @throws RangeError for a name that no option has. */
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

/** Where events go, and with which key: what is given, or else what the environment says. */
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
    'content is a directory, a bucket such as { bucket, endpoint, … }, or a store with put',
  );
}

function isObject<T>(value: T): value is T & object {
  return typeof value === 'object' && value !== null;
}
