/** Every recorded answer, through the library that asks for it, gives what a person expects of it. */
import { readFileSync } from 'node:fs';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { anthropicFetch } from '../src/anthropic.js';
import { openaiFetch } from '../src/openai.js';
import { captured, serverOf, vectorsOf } from './vectors.js';

describe('[R-1600] OpenAI, chat completions', () => {
  test.each(vectorsOf('chat'))('%s, %s', async (_name, form, vector) => {
    const { url } = await serverOf(vector, form);
    const seen = await captured(async (log, options) => {
      const openai = new OpenAI({
        baseURL: url,
        apiKey: 'key',
        maxRetries: 0,
        fetch: openaiFetch(log, options),
      });
      await drained(
        await openai.chat.completions.create({ ...vector.request, stream: form === 'stream' } as never),
      );
    });
    expect(seen).toEqual(vector.expected);
  });
});

describe('[R-1600] OpenAI, responses', () => {
  test.each(vectorsOf('responses'))('%s, %s', async (_name, form, vector) => {
    const { url } = await serverOf(vector, form);
    const seen = await captured(async (log, options) => {
      const openai = new OpenAI({
        baseURL: url,
        apiKey: 'key',
        maxRetries: 0,
        fetch: openaiFetch(log, options),
      });
      await drained(await openai.responses.create({ ...vector.request, stream: form === 'stream' } as never));
    });
    expect(seen).toEqual(vector.expected);
  });
});

describe('[R-1600] Anthropic, messages', () => {
  test.each(vectorsOf('messages'))('%s, %s', async (_name, form, vector) => {
    const { url } = await serverOf(vector, form);
    const seen = await captured(async (log, options) => {
      const fetch = anthropicFetch(log, options);
      const anthropic = new Anthropic({ baseURL: url, apiKey: 'key', maxRetries: 0, fetch });
      await drained(
        await anthropic.messages.create({ ...vector.request, stream: form === 'stream' } as never),
      );
    });
    expect(seen).toEqual(vector.expected);
  });
});

async function drained(answer: unknown): Promise<void> {
  const stream = answer as Partial<AsyncIterable<unknown>>;
  if (stream[Symbol.asyncIterator] === undefined) return;
  for await (const piece of stream as AsyncIterable<unknown>) expect(piece).toBeDefined();
}

test.each([
  ['R-1640', 'Messages', 'messages'],
  ['R-1641', 'AI SDK', 'ai-sdk'],
])('[%s] every recording of the table of %s is there, and stands in it', (_requirement, title, api) => {
  const sections = readFileSync('docs/reference/model-answers.md', 'utf8').split(/^## /m);
  const table = sections.find((section) => section.startsWith(`${title}\n`)) ?? '';
  const named = [...table.matchAll(/\| ((?:`[a-z\d-]+`(?:, )?)+) +\|$/gm)].flatMap(([, cell = '']) =>
    cell.split(', ').map((name) => name.slice(1, -1)),
  );
  const recorded = vectorsOf(api).map(([name]) => name);
  expect([...new Set(named)].sort()).toEqual([...new Set(recorded)].sort());
});
