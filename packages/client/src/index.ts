/** Captures clinical AI events in a spool on disk, and sends them to the collector. */

export { createClient } from './client.js';
export type { Client, ClientState } from './client.js';
export type { ClientOptions, SpoolPlace } from './options.js';
export type { Run, RunDetails, RunHandle, RunStart, WithContent } from './run.js';
export type { Captured, Outcome } from './capture.js';
export type { EventDetails, EventSource } from './event.js';
export type { Listeners, QuarantinedEvent, RefusedCapture } from './listeners.js';
export type { JudgedEvent, NotCaptured, Sampling } from './sampling.js';
export type { AwsCredentials, BucketOptions } from './content/content-bucket.js';
export type { ContentStore } from './content/content-store.js';
export { ClientClosed, ContentNotStored, EventInvalid } from './event.js';
export { SpoolClosed, SpoolFull, SpoolKeyWrong, SpoolUnwritable } from './spool/spool.js';
export type { Durability, Refusal, SpoolState } from './spool/spool.js';
