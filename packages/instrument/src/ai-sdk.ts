/** Captures the calls of the AI SDK by a middleware around a language model. */
import { performance } from 'node:perf_hooks';
import { fields, GrowingAnswer, TIMED_OUT } from '@clinical-events/protocol/spans';
import { isTimeOut, namesOf } from './errors.js';
import {
  checkOptions,
  type Ended,
  type InstrumentationOptions,
  ModelCall,
  quietly,
  type RunsIn,
} from './model-call.js';
import { ModelAnswer } from './readers/ai-sdk.js';
import { watchedStream } from './streams.js';

export type { Answer, ToolCall, Usage } from '@clinical-events/protocol/spans';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

/**
 * The members that all versions of the AI SDK share. Its own types differ by version and are not imported.
 */
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
  /** Each version declares its own literal and does not read it: `never` is assignable to all. */
  readonly specificationVersion: never;
  wrapGenerate<Result extends object>(
    wrapped: Wrapped & { readonly doGenerate: () => PromiseLike<Result> },
  ): Promise<Result>;
  wrapStream<Part, Result extends Streamed<Part>>(
    wrapped: Wrapped & { readonly doStream: () => PromiseLike<Result & Streamed<Part>> },
  ): Promise<Result>;
}

/**
 * A middleware for `wrapLanguageModel({ model, middleware })`. Each call of the model, and so each step of an
 * agent, becomes a run. Answers and errors reach the application unchanged. It adds no errors of its own. It
 * must be the last middleware, nearest to the model.
 * @param runs the client, the run that the calls belong to, or a function that returns one of them.
 */
export function captureMiddleware(runs: RunsIn, options: InstrumentationOptions = {}): CaptureMiddleware {
  checkOptions(options);
  // A retry has the same prompt object as the failed call, except with streamText, which converts it again.
  const made = new WeakMap<object, ModelCall>();
  const begin = ({ model, params }: Wrapped, startedAt: number, streamed: boolean) => {
    const begun = {
      ...{ by: 'ai-sdk', provider: model.provider, model: model.modelId, request: params, startedAt },
      inputs: { message_count: params.prompt.length, tool_count: params.tools?.length ?? 0, streamed },
    };
    const before = made.get(params.prompt);
    if (before?.beginAgain(begun)) return before;
    const call = new ModelCall(runs, options, begun);
    made.set(params.prompt, call);
    return call;
  };
  return {
    specificationVersion: 'v4' as never,
    async wrapGenerate(wrapped) {
      const startedAt = performance.now();
      const answering = called(wrapped.doGenerate);
      const call = quietly(() => begin(wrapped, startedAt, false));
      const answer = new GrowingAnswer();
      try {
        const result = await answering;
        quietly(() => {
          new ModelAnswer(answer).whole(fields(result));
        });
        const said = answer.finishReason === 'interrupted' ? 'cut off' : 'not read';
        call?.end({ ending: answer.ending ?? said, answer });
        return result;
      } catch (error) {
        call?.end({ ...brokenBy(wrapped, error), error, answer });
        throw error;
      }
    },
    async wrapStream(wrapped) {
      const startedAt = performance.now();
      const answering = called(wrapped.doStream);
      const call = quietly(() => begin(wrapped, startedAt, true));
      try {
        const result = await answering;
        return (call && quietly(() => passedOn(result, wrapped, call))) ?? result;
      } catch (error) {
        call?.end({ ...brokenBy(wrapped, error), error, answer: new GrowingAnswer() });
        throw error;
      }
    },
  };
}

/** Calls `act` synchronously; an exception becomes a rejection. */
async function called<Result>(act: () => PromiseLike<Result>): Promise<Result> {
  return await act();
}

function passedOn<Part, Result extends Streamed<Part>>(result: Result, wrapped: Wrapped, call: ModelCall) {
  const answer = new GrowingAnswer();
  const reader = new ModelAnswer(answer);
  let reported: unknown;
  const stream = watchedStream(result.stream, {
    seen(part) {
      if (fields(part)['type'] === 'error') reported = fields(part)['error'];
      reader.part(fields(part));
    },
    over(how, error = reported) {
      quietly(() => {
        reader.end();
      });
      call.end({ ...endedBy(how, error), answer });
    },
  });
  const endedBy = (how: 'read' | 'failed' | 'cancelled', error: unknown) => {
    if (answer.ending === 'failed') return { ...brokenBy(wrapped, reported, 'stream'), error: reported };
    if (answer.ending) return { ending: answer.ending };
    if (how === 'failed') return { ...brokenBy(wrapped, error, 'stream'), error };
    if (how === 'read') return { ending: 'cut off' as const };
    return endedBySignal(wrapped) ?? { ending: 'aborted' as const };
  };
  return { ...result, stream };
}

/** How a call failed. */
type Broken = Pick<Ended, 'ending' | 'errorName'>;

/** A time-out is a failure; an abort comes from the application. */
function endedBySignal({ params }: Wrapped): Broken | undefined {
  const signal = params.abortSignal;
  if (signal?.aborted !== true) return undefined;
  return isTimeOut(signal.reason) ? TIMED_OUT : { ending: 'aborted' };
}

/** A broken connection is `cut off` if the answer had begun: its status, or a part of it, had arrived. */
function brokenBy(wrapped: Wrapped, error: unknown, begun?: 'stream'): Broken {
  return quietly(() => lookedAt(wrapped, error, begun)) ?? { ending: 'failed' };
}

function lookedAt(wrapped: Wrapped, error: unknown, begun: 'stream' | undefined): Broken {
  const bySignal = endedBySignal(wrapped);
  if (bySignal) return bySignal;
  const { name, statusCode } = fields(error);
  if (name === 'AbortError') return { ending: 'aborted' };
  if (isTimeOut(error)) return TIMED_OUT;
  const code = namesOf(error).find((each) => CONNECTION.test(each));
  const isBegun = begun === 'stream' || (Number(statusCode) >= 200 && Number(statusCode) < 300);
  return isBegun && code !== undefined ? { ending: 'cut off', errorName: code } : { ending: 'failed' };
}

/** Codes of Node.js and undici for a closed or broken connection. */
const CONNECTION =
  /^(UND_ERR_SOCKET|ECONNRESET|EPIPE|ECONNABORTED|ERR_STREAM_PREMATURE_CLOSE|ERR_HTTP2_\w+)$/;
