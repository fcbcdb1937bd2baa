/** The messages between the main thread and the thread that reads bodies. */
import type { ErrorCode, EventKind } from '@clinical-events/protocol';
import type { Encoding as Coding } from '../ingest/request.js';
import type { Encoding, Signal } from './decoded.js';
import type { MappingOptions } from './mapping/mapping.js';

export interface TranslatingThreadData extends Omit<MappingOptions, 'organisation'> {
  /** Maximum bytes of a body after decompression. */
  readonly maxBodyBytes: number;
}

export interface ThreadData extends TranslatingThreadData {
  /**
   * One number: the request that is being read, or 0. It is in shared memory, so that it survives the end of
   * the thread.
   */
  readonly reading: Float64Array;
}

export type ToThread =
  | {
      readonly type: 'begin';
      readonly id: number;
      /** The key of the request: keys take turns. */
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
      /** The bodies, concatenated. */
      readonly bytes: ArrayBuffer;
    }
  | { readonly type: 'done'; readonly id: number; readonly summary: Summary }
  | { readonly type: 'failed'; readonly id: number; readonly fault: TranslationFault };

export interface Summary {
  /** Spans or log records of the request. */
  readonly items: number;
  /** The number of items without an event, by reason. */
  readonly ignored: Readonly<Record<string, number>>;
  /** The number of events that were made without their longest contents. */
  readonly shortened: number;
}

export interface TranslationFault {
  readonly code: ErrorCode;
  /** Replaces the code's own message; holds nothing of the body. */
  readonly message?: string;
}
