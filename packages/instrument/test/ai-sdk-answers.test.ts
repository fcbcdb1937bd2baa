/** Every recorded answer, through the middleware and through each AI SDK that supports it. */
import * as ai from 'ai';
import * as ai5 from 'ai-5';
import * as ai6 from 'ai-6';
import type { Client } from '@clinical-events/client';
import { describe, expect, test } from 'vitest';
import { captureMiddleware } from '../src/ai-sdk.js';
import type { InstrumentationOptions } from '../src/model-call.js';
import { captured, type Vector, vectorsOf } from './vectors.js';

/** What the versions have in common; their types differ. */
interface Library {
  wrapLanguageModel(wrapped: { model: unknown; middleware: unknown }): unknown;
  generateText(asked: object): Promise<unknown>;
  streamText(asked: object): { consumeStream(): PromiseLike<void> };
}

const LIBRARIES: Readonly<Record<string, readonly [library: Library, specification: string]>> = {
  'AI SDK 5': [ai5, 'v2'],
  'AI SDK 6': [ai6, 'v3'],
  'AI SDK 7': [ai, 'v4'],
};

type Play = (log: Client, options: InstrumentationOptions) => Promise<unknown>;

function modelOf({ whole, stream: parts = [] }: Vector, specificationVersion: string) {
  return {
    ...{ specificationVersion, provider: 'ward', modelId: 'ward-model', supportedUrls: {} },
    doGenerate: () => Promise.resolve(whole ?? {}),
    doStream: () => Promise.resolve({ stream: streamOf(parts) }),
  };
}

function streamOf(parts: Vector['stream'] = []): ReadableStream<object | string> {
  const left = [...parts];
  return new ReadableStream(
    {
      pull(controller) {
        const part = left.shift();
        if (part === undefined) controller.close();
        else if (part !== '[CUT]') controller.enqueue(part);
        else {
          const cause = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });
          controller.error(new TypeError('terminated', { cause }));
        }
      },
    },
    { highWaterMark: 0 },
  );
}

/** Calls the middleware as the AI SDK does. */
function alone(vector: Vector, form: 'whole' | 'stream'): Play {
  return async (log, options) => {
    const { doGenerate, doStream, ...model } = modelOf(vector, 'v4');
    const wrapped = { model, params: { prompt: [{ role: 'user', content: [] }] } };
    const middleware = captureMiddleware(log, options);
    if (form === 'whole') await middleware.wrapGenerate({ ...wrapped, doGenerate });
    else {
      const { stream } = await middleware.wrapStream({ ...wrapped, doStream });
      for await (const part of stream) expect(part).toBeDefined();
    }
  };
}

function through(server: string, vector: Vector, form: 'whole' | 'stream'): Play {
  const [library, specification] = LIBRARIES[server] ?? [];
  if (!library || specification === undefined) throw new Error(`no library is ${server}`);
  return async (log, options) => {
    const middleware = captureMiddleware(log, options);
    const model = library.wrapLanguageModel({ model: modelOf(vector, specification), middleware });
    const asked = { ...vector.request, model, maxRetries: 0, onError: () => undefined };
    await (form === 'whole' ? library.generateText(asked) : library.streamText(asked).consumeStream());
  };
}

describe('[R-1600] AI SDK', () => {
  const cases = vectorsOf('ai-sdk').flatMap(([name, form, vector]) => [
    [name, form, 'the middleware alone', vector.expected, alone(vector, form)] as const,
    ...vector.from.servers.map(
      (server) => [name, form, server, vector.expected, through(server, vector, form)] as const,
    ),
  ]);
  test.each(cases)('%s, %s, through %s', async (_name, _form, _server, expected, play) => {
    expect(await captured(play)).toEqual(expected);
  });
});
