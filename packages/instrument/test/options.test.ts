import { expect, test } from 'vitest';
import { captureMiddleware } from '../src/ai-sdk.js';
import { anthropicFetch } from '../src/anthropic.js';
import { RunCallbackHandler } from '../src/langchain.js';
import type { InstrumentationOptions, RunsIn } from '../src/model-call.js';
import { openaiFetch } from '../src/openai.js';
import { RunSpanProcessor } from '../src/opentelemetry.js';

const runs: RunsIn = () => {
  throw new Error('no call is made');
};

test.each<[string, (options: InstrumentationOptions) => unknown]>([
  ['OpenAI', (options) => openaiFetch(runs, options)],
  ['Anthropic', (options) => anthropicFetch(runs, options)],
  ['AI SDK', (options) => captureMiddleware(runs, options)],
  ['LangChain.js', (options) => new RunCallbackHandler(runs, options)],
  ['OpenTelemetry', (options) => new RunSpanProcessor(runs, options)],
])('[R-861] %s: an unknown option or a wrong value is refused', (_what, make) => {
  expect(() => make({ show: false } as object)).toThrow(
    new RangeError('there is no "show" in the options of the instrumentation; did you mean "shown"?'),
  );
  expect(() => make({ shown: 'no' as never })).toThrow(
    new RangeError('shown must be true, false or a function'),
  );
  expect(() => make({ describe: {} as never })).toThrow(new RangeError('describe must be a function'));
  make({ shown: () => false, describe: undefined });
});
