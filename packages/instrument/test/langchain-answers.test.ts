/** Every recorded answer, through a LangChain model. */
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { BaseLLM } from '@langchain/core/language_models/llms';
import { AIMessage, AIMessageChunk } from '@langchain/core/messages';
import { ChatGenerationChunk, type ChatResult, type LLMResult } from '@langchain/core/outputs';
import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import { describe, expect, test } from 'vitest';
import { RunCallbackHandler } from '../src/langchain.js';
import { Random, runs, SEED } from '../../../test/property-runs.js';
import { GrowingAnswer } from '@clinical-events/protocol/spans';
import { takeOutputs, takeResult, takeToken } from '../src/readers/langchain.js';
import { captured, type Vector, vectorsOf } from './vectors.js';

type Fields = Readonly<Record<string, unknown>>;
interface Generation {
  readonly text: string;
  readonly message?: Fields;
  readonly generationInfo?: Record<string, unknown>;
}
interface Result {
  readonly generations: Generation[][];
  readonly llmOutput?: Record<string, unknown>;
}

/** The form in which a provider's package passes on the answer of a server. */
class Recorded extends BaseChatModel {
  readonly #vector: Vector;

  constructor(vector: Vector) {
    super({ maxRetries: 0 });
    this.#vector = vector;
  }

  override _llmType(): string {
    return 'recorded';
  }

  override _generate(): Promise<ChatResult> {
    const { generations, llmOutput } = structuredClone(this.#vector.whole) as Result;
    const [answered = []] = generations;
    return Promise.resolve({
      generations: answered.map(({ text, message, generationInfo }) => ({
        ...{ text, message: new AIMessage(message as never) },
        ...(generationInfo && { generationInfo }),
      })),
      ...(llmOutput && { llmOutput }),
    });
  }

  override async *_streamResponseChunks(
    _messages: unknown,
    _options: unknown,
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    for (const piece of structuredClone(this.#vector.stream ?? [])) {
      if (piece === '[CUT]') throw new TypeError('terminated', { cause: { code: 'UND_ERR_SOCKET' } });
      const { text, message, generationInfo } = piece as Generation;
      const chunk = new ChatGenerationChunk({
        ...{ text, message: new AIMessageChunk(message as never) },
        ...(generationInfo && { generationInfo }),
      });
      const { prompt = 0, completion = 0 } = (generationInfo ?? {}) as Record<string, number>;
      yield chunk;
      await runManager?.handleLLMNewToken(text, { prompt, completion }, undefined, undefined, undefined, {
        chunk,
      });
    }
  }
}

/** The same for a model without messages. */
function recordedPlain({ whole }: Vector): BaseLLM {
  class RecordedPlain extends BaseLLM {
    override _llmType(): string {
      return 'recorded';
    }

    override _generate(): Promise<LLMResult> {
      return Promise.resolve(structuredClone(whole) as LLMResult);
    }
  }
  return new RecordedPlain({ maxRetries: 0 });
}

const vectors = vectorsOf('langchain');

describe('[R-1600] LangChain', () => {
  test.each(vectors)('%s, %s, by a model', async (_name, form, vector) => {
    const isPlain = vector.whole && !JSON.stringify(vector.whole).includes('"message"');
    const seen = await captured(async (log, options) => {
      const callbacks = [new RunCallbackHandler(log, options)];
      const model = isPlain && form === 'whole' ? recordedPlain(vector) : new Recorded(vector);
      if (form === 'whole') await model.invoke('When is it taken?', { callbacks });
      else
        for await (const piece of await model.stream('When is it taken?', { callbacks }))
          expect(piece).toBeDefined();
    });
    expect(seen).toEqual(vector.expected);
  });

  test.each(vectors.filter(([, form]) => form === 'whole'))(
    '%s, by callbacks',
    async (_name, _form, vector) => {
      const seen = await captured((log, options) => {
        const handler = new RunCallbackHandler(log, options);
        handler.handleChatModelStart({ id: ['Recorded'] }, [['When is it taken?']], 'run');
        handler.handleLLMEnd(vector.whole, 'run');
        return Promise.resolve();
      });
      expect(seen).toEqual(vector.expected);
    },
  );
});

const ODD = [
  null,
  undefined,
  -1,
  NaN,
  true,
  [],
  {},
  [[]],
  17n,
  '',
  '\ud800',
  'a'.repeat(5000),
  'non_standard',
];

/** The same with members removed or replaced. */
function mutated(value: unknown, random: Random): unknown {
  if (random.chance(14)) return random.of(ODD);
  if (Array.isArray(value)) return value.map((each) => mutated(each, random));
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(() => !random.chance(20));
  return Object.fromEntries(kept.map(([name, each]) => [name, mutated(each, random)]));
}

test('[R-1600] LangChain: a reader makes an answer of any input', () => {
  const random = new Random(SEED);
  for (let count = runs(100_000, 2000); count > 0; count--) {
    const [, , { whole, stream = [] }] = random.of(vectors);
    const answer = new GrowingAnswer();
    const result = mutated(whole, random) as Fields | null | undefined;
    takeResult(answer, result ?? {}, random.chance(2));
    for (const piece of stream) takeToken(answer, mutated('x', random), piece, mutated(piece, random));
    takeOutputs(answer, mutated(whole, random));
    for (const { text, reasoning, toolCalls } of answer.choices) {
      const words = [text, reasoning, ...toolCalls.map(({ input }) => input)];
      expect(words.filter((each) => typeof each !== 'string')).toEqual([]);
    }
  }
});
