/** Captures the calls of the Anthropic SDK: messages, whole and streamed. */
import { type CapturedFetch, capturedFetch, counts, type FetchOptions } from './captured-fetch.js';
import type { RunsIn } from './model-call.js';
import { MESSAGES } from './readers/messages.js';

export type { Answer, ToolCall, Usage } from '@clinical-events/protocol/spans';
export type { CapturedFetch, FetchOptions } from './captured-fetch.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

/**
 * A fetch for the option `fetch` of `new Anthropic(…)`. Each request to a model becomes a run. Answers and
 * errors reach the application unchanged. It adds no errors of its own.
 * @param runs the client, the run that the calls belong to, or a function that returns one of them.
 */
export function anthropicFetch(runs: RunsIn, options: FetchOptions = {}): CapturedFetch {
  return capturedFetch(runs, options, {
    provider: 'anthropic',
    readerFor: (path) => (path.endsWith('/v1/messages') ? MESSAGES : undefined),
    inputs: (request) => counts(request, request['messages']),
  });
}
