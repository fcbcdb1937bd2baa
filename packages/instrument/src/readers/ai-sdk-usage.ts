/** Tokens of the AI SDK; version 5 has the counts of its providers. */
import {
  fields,
  type Fields,
  type GrowingAnswer,
  isCount,
  isObject,
  sumWith,
} from '@clinical-events/protocol/spans';

/** Version 5 has numbers, later versions objects whose totals include cache and reasoning. */
export function takeUsage(answer: GrowingAnswer, { usage, providerMetadata }: Fields): void {
  const { inputTokens, outputTokens } = fields(usage);
  if (isObject(inputTokens) || isObject(outputTokens)) {
    const { total, noCache, cacheRead, cacheWrite } = fields(inputTokens);
    const { total: all, text, reasoning } = fields(outputTokens);
    answer.count({
      input: total ?? sumWith(noCache, cacheRead, cacheWrite),
      output: all ?? sumWith(text, reasoning),
      ...{ cacheRead, cacheCreation: cacheWrite, reasoning },
    });
  } else countFlat(answer, fields(usage), fields(providerMetadata));
}

/**
 * Providers of Anthropic and Bedrock count the cache separately from the input (getsentry/sentry-javascript
 * issue 21484); so does a provider with more cached than input tokens. The total shows whether reasoning is
 * part of the output.
 */
function countFlat(answer: GrowingAnswer, usage: Fields, providerMetadata: Fields): void {
  const { inputTokens, outputTokens, totalTokens, cachedInputTokens, reasoningTokens } = usage;
  const { anthropic, bedrock } = providerMetadata;
  const { cache_creation_input_tokens } = fields(fields(anthropic)['usage']);
  const { cacheWriteInputTokens } = fields(fields(bedrock)['usage']);
  const written = [
    fields(anthropic)['cacheCreationInputTokens'],
    cache_creation_input_tokens,
    cacheWriteInputTokens,
  ].find(isCount);
  const isApart = isObject(anthropic) || isObject(bedrock) || Number(cachedInputTokens) > Number(inputTokens);
  const withReasoning = sumWith(outputTokens, reasoningTokens);
  const isReasoningApart =
    isCount(totalTokens) && totalTokens === sumWith(inputTokens, outputTokens, reasoningTokens);
  answer.count({
    input: isApart ? sumWith(inputTokens, cachedInputTokens, written) : inputTokens,
    output: isReasoningApart ? withReasoning : outputTokens,
    ...{ cacheRead: cachedInputTokens, cacheCreation: written, reasoning: reasoningTokens },
  });
}
