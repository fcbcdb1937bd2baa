/** Tokens of the AI SDK, whose version 5 gives them as its providers count. */
import {
  fields,
  type Fields,
  type GrowingAnswer,
  isCount,
  isObject,
  sumWith,
} from '@clinical-events/protocol/spans';

/** Version 5 gives numbers, later ones objects whose totals include the cache and the reasoning. */
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
 * Providers of Anthropic and Bedrock count the cache beside the input (getsentry/sentry-javascript issue 21484); where
 * more was cached than asked, the provider does the same. The total tells whether reasoning is beside the output.
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
