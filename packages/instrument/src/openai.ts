/** Captures the calls of the OpenAI SDK: chat completions and responses, whole and streamed. */
import {
  type CapturedFetch,
  capturedFetch,
  counts,
  type Dialect,
  type FetchOptions,
} from './captured-fetch.js';
import type { RunsIn } from './model-call.js';
import { CHAT } from './readers/chat.js';
import { RESPONSES } from './readers/responses.js';

export type { Answer, ToolCall, Usage } from '@clinical-events/protocol/spans';
export type { CapturedFetch, FetchOptions } from './captured-fetch.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

/**
 * A fetch for the option `fetch` of `new OpenAI(…)`. Each request to a model becomes a run. Answers and
 * errors reach the application unchanged. It adds no errors of its own.
 * @param runs the client, the run that the calls belong to, or a function that returns one of them.
 */
export function openaiFetch(runs: RunsIn, options: FetchOptions = {}): CapturedFetch {
  return capturedFetch(runs, options, DIALECT);
}

const DIALECT: Dialect = {
  provider: 'openai',
  readerFor: (path) => {
    // Chat completions and the older completions.
    if (path.endsWith('/completions')) return CHAT;
    return path.endsWith('/responses') ? RESPONSES : undefined;
  },
  // `GET …/responses/{id}` and `POST …/responses/{id}/cancel`.
  earlierAnswer: (method, path) => {
    if (method === 'GET') return /\/responses\/[^/]+$/.test(path) ? path : undefined;
    return method === 'POST' ? /^(.*\/responses\/[^/]+)\/cancel$/.exec(path)?.[1] : undefined;
  },
  inputs: (request) => counts(request, request['messages'] ?? request['input']),
};
