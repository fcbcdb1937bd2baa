import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import type { ChatResult } from '@langchain/core/outputs';
import { AIMessage, AIMessageChunk } from '@langchain/core/messages';
import { Document } from '@langchain/core/documents';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { BaseRetriever } from '@langchain/core/retrievers';
import { RunnableLambda } from '@langchain/core/runnables';
import { tool } from '@langchain/core/tools';
import { FakeListChatModel, FakeStreamingChatModel } from '@langchain/core/utils/testing';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { RunCallbackHandler, type InstrumentationOptions } from '../src/langchain.js';
import { eventually, expectMadeBy, recording, SECRET } from './recording.js';

const ASKED = { patient: SECRET };

class Doctor extends BaseChatModel {
  override _llmType(): string {
    return 'doctor';
  }
  override _generate(): Promise<ChatResult> {
    const message = new AIMessage({
      ...{ content: '', id: 'r1' },
      tool_calls: [{ id: 'call_1', name: 'find_dose', args: ASKED }],
      response_metadata: { model_name: 'm-2026', finish_reason: 'tool_calls' },
    });
    Object.assign(message, { usage_metadata: { input_tokens: 11, output_tokens: 7, total_tokens: 18 } });
    return Promise.resolve({ generations: [{ text: '', message }] });
  }
}

test('[R-865] LangChain: a call of a model with tools becomes a run with its artifacts', async () => {
  const { log, events } = await recording();
  const captured = await new Doctor({}).invoke(SECRET, { callbacks: [new RunCallbackHandler(log)] });
  expect(captured).toEqual(await new Doctor({}).invoke(SECRET));
  const all = await events();
  const [start, called, ended, ...more] = all;
  expect(more).toEqual([]);
  expect(start).toMatchObject({
    kind: 'inference-start',
    model_instance: { model_id: 'Doctor', provider: 'Doctor' },
    inputs: { message_count: 1, tool_count: 0 },
    system_metadata: { instrumentation: { by: 'langchain' } },
  });
  expect(called?.artifact).toMatchObject({
    ...{ artifact_type: 'tool_call', tool_name: 'find_dose', call_id: 'call_1' },
    input_characters: JSON.stringify(ASKED).length,
  });
  expect(ended?.artifact).toMatchObject({
    ...{ artifact_type: 'other', response_model: 'm-2026', finish_reason: 'tool_calls' },
    usage: { input_tokens: 11, output_tokens: 7 },
  });
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] LangChain: a stream is not delayed and becomes an output', async () => {
  const { log, events } = await recording();
  const chunks = [SECRET.slice(0, 4), SECRET.slice(4)].map((content) => new AIMessageChunk({ content }));
  const texts: string[] = [];
  const stream = await new FakeStreamingChatModel({ chunks }).stream('p', {
    callbacks: [new RunCallbackHandler(log)],
  });
  for await (const { text } of stream) texts.push(text);
  expect(texts.join('')).toBe(SECRET);
  const [start, output, ...more] = await events();
  expect(more).toEqual([]);
  expect(output).toMatchObject({
    ...{ kind: 'human-output', run_id: start?.run_id },
    output: { ending: 'complete', characters: SECRET.length },
  });
  expect(output?.system_metadata.latency_ms).toBeGreaterThanOrEqual(0);
  expect(JSON.stringify(output)).not.toContain(SECRET);
});

class Shelf extends BaseRetriever {
  lc_namespace = ['test'];
  override _getRelevantDocuments(): Promise<Document[]> {
    return Promise.resolve([new Document({ pageContent: SECRET }), new Document({ pageContent: SECRET })]);
  }
}

test('[R-865] LangChain: an agent that calls another by a tool becomes nested runs', async () => {
  const { log, events } = await recording();
  const chain = (response: string) =>
    ChatPromptTemplate.fromTemplate('{question}')
      .pipe(new FakeListChatModel({ responses: [response] }))
      .pipe(new StringOutputParser());
  const ask = tool(
    ({ question }: { question: string }, config) =>
      chain(SECRET).withConfig({ runName: 'librarian' }).invoke({ question }, config),
    {
      ...{ name: 'ask', schema: z.object({ question: z.string() }) },
    },
  );
  const agent = RunnableLambda.from(async (question: string, config) => {
    const [found] = await new Shelf().invoke(question, config);
    return chain('done').invoke(
      { question: (await ask.invoke({ question }, config)) + (found?.id ?? '') },
      config,
    );
  }).withConfig({ runName: 'nurse' });
  expect(await agent.invoke(SECRET, { callbacks: [new RunCallbackHandler(log)] })).toBe('done');
  const all = await events();
  const starts = all.filter(({ kind }) => kind === 'inference-start');
  const [outer, inner, innerModel, model] = starts;
  expect(starts.map((start) => start['model_instance'])).toMatchObject([
    ...[{ model_id: 'nurse' }, { model_id: 'librarian' }],
    ...[{ model_id: 'FakeListChatModel' }, { model_id: 'FakeListChatModel' }],
  ]);
  expect(starts.map(({ parent_event_id }) => parent_event_id)).toEqual([
    ...[undefined, outer?.event_id, inner?.event_id, outer?.event_id],
  ]);
  const ends = all.filter(({ kind }) => kind !== 'inference-start');
  expect(ends.map(({ kind, run_id, artifact }) => [run_id, artifact?.['artifact_type'] ?? kind])).toEqual([
    [outer?.run_id, 'text_chunk'],
    [innerModel?.run_id, 'human-output'],
    [inner?.run_id, 'other'],
    [model?.run_id, 'human-output'],
    [outer?.run_id, 'other'],
  ]);
  expect(ends[0]?.artifact?.['documents']).toBe(2);
  expectMadeBy('langchain', all);
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] LangChain: an error reaches the application unchanged, the run has its name', async () => {
  const { log, events } = await recording();
  const model = new FakeStreamingChatModel({ thrownErrorString: SECRET });
  const callbacks = [new RunCallbackHandler(log)];
  await expect(model.invoke('p', { callbacks })).rejects.toThrow(SECRET);
  await expect(
    RunnableLambda.from(() => Promise.reject(new RangeError(SECRET))).invoke('p', { callbacks }),
  ).rejects.toThrow(SECRET);
  const ends = (await events()).filter(({ kind }) => kind !== 'inference-start');
  expect(ends.map(({ artifact }) => artifact)).toMatchObject([
    { artifact_type: 'other', ending: 'failed', error_name: 'Error' },
    { artifact_type: 'other', ending: 'failed', error_name: 'RangeError' },
  ]);
  expect(JSON.stringify(ends)).not.toContain(SECRET);
});

test('[R-865] [R-897] LangChain: a repetition by withRetry belongs to the failed run', async () => {
  const { log, events } = await recording();
  let calls = 0;
  class Busy extends Doctor {
    override _generate(): Promise<ChatResult> {
      if (calls++ === 0) return Promise.reject(Object.assign(new Error(SECRET), { status: 429 }));
      const message = new AIMessage({ content: SECRET, id: 'r1' });
      return Promise.resolve({ generations: [{ text: SECRET, message }] });
    }
  }
  const model = new Busy({ maxRetries: 0 }).withRetry({ stopAfterAttempt: 2 });
  await model.invoke('p', { callbacks: [new RunCallbackHandler(log, { shown: false })] });
  const all = await events();
  const [start, failed, ended, ...more] = all;
  expect(more).toEqual([]);
  expect(failed).toMatchObject({ run_id: start?.run_id, artifact: { ending: 'failed', status: 429 } });
  expect(ended).toMatchObject({
    run_id: start?.run_id,
    system_metadata: { instrumentation: { by: 'langchain', attempt: 2 } },
    artifact: { ending: 'complete', characters: SECRET.length },
  });
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] LangChain: an aborted stream has no output', async () => {
  const { log, events } = await recording();
  const abort = new AbortController();
  const model = new FakeListChatModel({ responses: [SECRET], sleep: 10 });
  const config = { callbacks: [new RunCallbackHandler(log)], signal: abort.signal };
  const reading = (async () => {
    for await (const { text } of await model.stream('p', config))
      if (text !== '') setTimeout(() => abort.abort(), 5);
  })();
  await expect(reading).rejects.toThrow();
  const [, ended, ...more] = await eventually(async () => {
    const all = await events();
    return all.length > 1 ? all : undefined;
  });
  expect(more).toEqual([]);
  expect(ended?.artifact).toMatchObject({ artifact_type: 'other', ending: 'aborted' });
  expect(ended?.artifact?.['characters']).toBeGreaterThan(0);
});

test('[R-865] LangChain: describe chooses the words, and may throw', async () => {
  const { log, events, contents } = await recording();
  const describe: InstrumentationOptions['describe'] = ({ answer }) =>
    answer ? { outputContent: answer.text } : { user: { caller_id: 'u1' } };
  const model = new FakeListChatModel({ responses: [SECRET] });
  await model.invoke('p', { callbacks: [new RunCallbackHandler(log, { describe })] });
  const [start, output] = await events();
  expect(start).toMatchObject({ user_identity: { caller_id: 'u1' } });
  expect(output?.output?.['output_uri']).toMatch(/^sha256:/);
  expect(contents).toEqual([SECRET]);
  await log.close();
  const answer = await model.invoke('p', { callbacks: [new RunCallbackHandler(log, { describe })] });
  expect(answer.content).toBe(SECRET);
});
