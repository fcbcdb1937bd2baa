/** Captures the calls of the AI SDK: a middleware around a language model. */
import { performance } from 'node:perf_hooks';
import { fields, GrowingAnswer } from './answer.js';
import { checkOptions, type InstrumentationOptions, ModelCall, quietly, type RunsIn } from './model-call.js';
import { takePart, takeResult } from './readers/ai-sdk.js';
import { watchedStream } from './streams.js';

export type { Answer, ToolCall, Usage } from './answer.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

/* What the versions of the AI SDK have in common. Its own types differ by version, and are not imported. */

interface Wrapped {
  readonly model: { readonly provider: string; readonly modelId: string };
  readonly params: {
    readonly prompt: readonly unknown[];
    readonly tools?: readonly unknown[] | undefined;
    readonly abortSignal?: AbortSignal | undefined;
  };
}

interface Streamed<Part> {
  stream: ReadableStream<Part>;
}

export interface CaptureMiddleware {
  /** Each version declares a literal of its own and reads none: this type is assignable to every one. */
  readonly specificationVersion: never;
  wrapGenerate<Result extends object>(
    wrapped: Wrapped & { readonly doGenerate: () => PromiseLike<Result> },
  ): Promise<Result>;
  wrapStream<Part, Result extends Streamed<Part>>(
    wrapped: Wrapped & { readonly doStream: () => PromiseLike<Result & Streamed<Part>> },
  ): Promise<Result>;
}

/**
 * For `wrapLanguageModel({ model, middleware })`. Each call of the model, so each step of an agent, becomes a run; the
 * application sees what it would see without it. Does not throw. Put it last among several, nearest to the model.
 * @param runs the client, a run that the calls belong to, or a function that gives one of them.
 */
export function captureMiddleware(runs: RunsIn, options: InstrumentationOptions = {}): CaptureMiddleware {
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
    specificationVersion: 'v4' as never,
    async wrapGenerate(wrapped) {
      const startedAt = performance.now();
      const answering = wrapped.doGenerate();
      const call = begin(wrapped, startedAt, false);
      const answer = new GrowingAnswer();
      try {
        const result = await answering;
        quietly(() => {
          takeResult(answer, fields(result));
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

function watched<Part>(
  stream: ReadableStream<Part>,
  wrapped: Wrapped,
  call: ModelCall,
  answer: GrowingAnswer,
) {
  let told: unknown;
  return watchedStream(stream, {
    seen(chunk) {
      const part = fields(chunk);
      if (part['type'] === 'error') told = part['error'];
      takePart(answer, part);
    },
    over(how, error = told) {
      if (answer.ending === 'failed') call.end({ ending: endingOf(wrapped, told), error: told, answer });
      else if (answer.ending) call.end({ ending: answer.ending, answer });
      else if (how === 'failed') call.end({ ending: endingOf(wrapped, error), error, answer });
      else call.end({ ending: how === 'cancelled' ? 'aborted' : 'cut off', answer });
    },
  });
}

function endingOf({ params }: Wrapped, error: unknown): 'aborted' | 'failed' {
  const aborted =
    params.abortSignal?.aborted === true || (error instanceof Error && error.name === 'AbortError');
  return aborted ? 'aborted' : 'failed';
}
