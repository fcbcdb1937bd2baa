/** Captures the calls of the Anthropic SDK: messages, in one piece and in streams. */
import { type CapturedFetch, capturedFetch, counts, type FetchOptions } from './captured-fetch.js';
import type { RunsIn } from './model-call.js';
import { MESSAGES } from './readers/messages.js';

export type { Answer, ToolCall, Usage } from '@clinical-events/protocol/spans';
export type { CapturedFetch, FetchOptions } from './captured-fetch.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

/**
 * For the option `fetch` of `new Anthropic(…)`. Each request to a model becomes a run; the application sees what it
 * would see without it. Does not throw.
 * @param runs the client, a run that the calls belong to, or a function that gives one of them.
 */
export function anthropicFetch(runs: RunsIn, options: FetchOptions = {}): CapturedFetch {
  return capturedFetch(runs, options, {
    provider: 'anthropic',
    readerFor: (path) => (path.endsWith('/v1/messages') ? MESSAGES : undefined),
    inputs: (request) => counts(request, request['messages']),
  });
}
