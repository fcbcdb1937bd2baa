/** Captures the calls of the AI SDK: a middleware around a language model. */
import type { LanguageModelMiddleware } from 'ai';
import { fields, GrowingAnswer, text } from './answer.js';
import { checkOptions, type InstrumentationOptions, ModelCall, quietly, type RunsIn } from './model-call.js';
import { watchedStream } from './streams.js';

export type { Answer, ToolCall, Usage } from './answer.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

type Wrapped = Parameters<NonNullable<LanguageModelMiddleware['wrapStream']>>[0];
type Part = Awaited<ReturnType<Wrapped['doStream']>>['stream'] extends ReadableStream<infer P> ? P : never;
type Content = Awaited<ReturnType<Wrapped['doGenerate']>>['content'][number];

/**
 * For `wrapLanguageModel({ model, middleware })`. Each call of the model, so each step of an agent, becomes a run; the
 * application sees what it would see without it. Does not throw. Put it last among several, nearest to the model.
 * @param runs the client, a run that the calls belong to, or a function that gives one of them.
 */
export function captureMiddleware(
  runs: RunsIn,
  options: InstrumentationOptions = {},
): LanguageModelMiddleware {
  checkOptions(options);
  // A retry has the very prompt of the call that failed, where the library does not convert it again (streamText does).
  const made = new WeakMap<object, ModelCall>();
  const begin = ({ model, params }: Wrapped, startedAt: number, streamed: boolean) => {
    const begun = {
      ...{ by: 'ai-sdk', provider: model.provider, model: model.modelId, request: params, startedAt },
      inputs: { message_count: params.prompt.length, tool_count: params.tools?.length ?? 0, streamed },
    };
    const before = made.get(params.prompt);
    if (before?.goesOn(begun)) return before;
    const call = new ModelCall(runs, options, begun);
    made.set(params.prompt, call);
    return call;
  };
  return {
    specificationVersion: 'v4',
    async wrapGenerate(wrapped) {
      const startedAt = performance.now();
      const answering = wrapped.doGenerate();
      const call = begin(wrapped, startedAt, false);
      const answer = new GrowingAnswer();
      try {
        const result = await answering;
        quietly(() => {
          for (const [at, content] of result.content.entries()) takeContent(answer, at, content);
          takeEnd(answer, result);
          takeResponse(answer, result.response);
        });
        call.end({ ending: 'complete', answer });
        return result;
      } catch (error) {
        call.end({ ending: endingOf(wrapped, error), error, answer });
        throw error;
      }
    },
    async wrapStream(wrapped) {
      const startedAt = performance.now();
      const answering = wrapped.doStream();
      const call = begin(wrapped, startedAt, true);
      const answer = new GrowingAnswer();
      try {
        const result = await answering;
        return { ...result, stream: watched(result.stream, wrapped, call, answer) };
      } catch (error) {
        call.end({ ending: endingOf(wrapped, error), error, answer });
        throw error;
      }
    },
  };
}

function watched(stream: ReadableStream<Part>, wrapped: Wrapped, call: ModelCall, answer: GrowingAnswer) {
  let told: unknown;
  return watchedStream(stream, {
    seen(part) {
      if (part.type === 'error') told = part.error;
      takePart(answer, part);
    },
    over(how, error = told) {
      const { complete, failed } = answer;
      if (failed) call.end({ ending: endingOf(wrapped, told), error: told, answer });
      else if (complete) call.end({ ending: 'complete', answer });
      else if (how === 'failed') call.end({ ending: endingOf(wrapped, error), error, answer });
      else call.end({ ending: how === 'cancelled' ? 'aborted' : 'cut off', answer });
    },
  });
}

function takePart(answer: GrowingAnswer, part: Part): void {
  if (part.type === 'text-delta') answer.text += part.delta;
  else if (part.type === 'reasoning-delta') answer.reasoning += part.delta;
  else if (part.type === 'tool-call') takeContent(answer, part.toolCallId, part);
  else if (part.type === 'response-metadata') takeResponse(answer, part);
  else if (part.type === 'finish') takeEnd(answer, part);
  else if (part.type === 'error') answer.failed = true;
}

function takeContent(answer: GrowingAnswer, key: unknown, content: Content): void {
  if (content.type === 'text') answer.text += content.text;
  else if (content.type === 'reasoning') answer.reasoning += content.text;
  else if (content.type === 'tool-call') {
    const call = answer.toolCall(key);
    call.id = content.toolCallId;
    call.name = content.toolName;
    call.input = content.input;
    call.byProvider = content.providerExecuted === true;
  }
}

function takeEnd(answer: GrowingAnswer, ended: Extract<Part, { type: 'finish' }> | object): void {
  const { finishReason, usage } = fields(ended);
  answer.finishReason = text(fields(finishReason)['unified']);
  const { inputTokens, outputTokens } = fields(usage);
  answer.count(fields(inputTokens)['total'], fields(outputTokens)['total']);
  answer.complete = true;
}

function takeResponse(answer: GrowingAnswer, response: unknown): void {
  const { id, modelId } = fields(response);
  answer.id = text(id) ?? answer.id;
  answer.model = text(modelId) ?? answer.model;
}

function endingOf({ params }: Wrapped, error: unknown): 'aborted' | 'failed' {
  const aborted =
    params.abortSignal?.aborted === true || (error instanceof Error && error.name === 'AbortError');
  return aborted ? 'aborted' : 'failed';
}
