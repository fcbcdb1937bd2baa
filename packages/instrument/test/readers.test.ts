/** Every recorded answer, through the library that asks for it, gives what a person expects of it. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { anthropicFetch } from '../src/anthropic.js';
import { openaiFetch } from '../src/openai.js';
import { captured, serverOf, vectorsOf } from './vectors.js';

type Ask = (baseURL: string, asked: never, ...given: Parameters<typeof openaiFetch>) => PromiseLike<unknown>;

const openai = (baseURL: string, ...given: Parameters<typeof openaiFetch>) =>
  new OpenAI({ baseURL, apiKey: 'key', maxRetries: 0, fetch: openaiFetch(...given) });

const chat: Ask = (url, asked, ...given) => openai(url, ...given).chat.completions.create(asked);
const responses: Ask = (url, asked, ...given) => openai(url, ...given).responses.create(asked);
const messages: Ask = (baseURL, asked, ...given) =>
  new Anthropic({ baseURL, apiKey: 'key', maxRetries: 0, fetch: anthropicFetch(...given) }).messages.create(
    asked,
  );

describe.each([
  ['chat', chat],
  ['responses', responses],
  ['messages', messages],
] as const)('[R-1600] %s', (api, ask) => {
  test.each(vectorsOf(api))('%s, %s', async (_name, form, vector) => {
    const { url } = await serverOf(vector, form);
    const asked = { ...vector.request, stream: form === 'stream' } as never;
    const seen = await captured(async (...given) => {
      await drained(await ask(url, asked, ...given));
    });
    expect(seen).toEqual(vector.expected);
  });
});

async function drained(answer: unknown): Promise<void> {
  const stream = answer as Partial<AsyncIterable<unknown>>;
  if (stream[Symbol.asyncIterator] === undefined) return;
  for await (const piece of stream as AsyncIterable<unknown>) expect(piece).toBeDefined();
}
