// The compiler checks these lines; Vitest only runs them.
import { expectTypeOf, test } from 'vitest';
import type { anthropicFetch } from '../src/anthropic.js';
import type { openaiFetch } from '../src/openai.js';

type SdkFetch = ReturnType<typeof anthropicFetch>;

test('[R-865] a captured fetch has the type of the global one and fits the options of old SDKs', () => {
  expectTypeOf<ReturnType<typeof openaiFetch>>().toEqualTypeOf<SdkFetch>();
  expectTypeOf<SdkFetch>().toExtend<typeof fetch>();
  const call = (made: SdkFetch) => made(new URL('http://x'), { method: 'POST' });
  expectTypeOf(call).returns.toEqualTypeOf<Promise<Response>>();
  // node-fetch has its own classes, which the global ones do not extend.
  type OfNodeFetch = (
    url: string | { size: number },
    init?: { agent?: { maxSockets: number } },
  ) => Promise<{ buffer(): Promise<Buffer> }>;
  expectTypeOf<SdkFetch>().toExtend<OfNodeFetch>();
  expectTypeOf<typeof fetch>().not.toExtend<OfNodeFetch>();
});
