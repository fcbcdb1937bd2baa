/** What the main thread and the thread that reads bodies tell each other. */
import type { ErrorCode, EventKind } from '@clinical-events/protocol';
import type { Encoding as Coding } from '../ingest/request.js';
import type { Encoding, Signal } from './decoded.js';
import type { MappingOptions } from './mapping/mapping.js';

export interface TranslatingThreadData extends Omit<MappingOptions, 'organisation'> {
  /** The most bytes of a body once it is decompressed. */
  readonly maxBodyBytes: number;
}

export interface ThreadData extends TranslatingThreadData {
  /** One number: the request that is being read, or 0. The memory is shared: it says so when the thread has ended. */
  readonly reading: Float64Array;
}

export type ToThread =
  | {
      readonly type: 'begin';
      readonly id: number;
      /** Of whom the request is: keys take turns. */
      readonly keyId: string;
      readonly signal: Signal;
      readonly encoding: Encoding;
      readonly coding: Coding;
      readonly organisation: string;
      readonly body: ArrayBuffer;
    }
  | { readonly type: 'more' | 'cancel'; readonly id: number };

export type FromThread =
  | {
      readonly type: 'made';
      readonly id: number;
      readonly kinds: readonly EventKind[];
      readonly items: Uint32Array;
      readonly lengths: Uint32Array;
      /** The bodies, one behind the other. */
      readonly bytes: ArrayBuffer;
    }
  | { readonly type: 'done'; readonly id: number; readonly summary: Summary }
  | { readonly type: 'failed'; readonly id: number; readonly fault: TranslationFault };

export interface Summary {
  /** Spans or log records of the request. */
  readonly items: number;
  /** How many of them make no event, by reason. */
  readonly ignored: Readonly<Record<string, number>>;
  /** How many events were made without their longest contents. */
  readonly shortened: number;
}

export interface TranslationFault {
  readonly code: ErrorCode;
  /** In place of the code's own; nothing of the body is in it. */
  readonly message?: string;
}
