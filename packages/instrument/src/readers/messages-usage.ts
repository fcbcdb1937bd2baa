/** Tokens of the Messages API, whose `input_tokens` exclude the cache. */
import {
  countOf,
  fields,
  type Fields,
  type GrowingAnswer,
  isCount,
  sum,
  sumWith,
} from '@clinical-events/protocol/spans';

/** The last count of each kind. */
export interface Counts {
  input?: number | undefined;
  cacheRead?: number | undefined;
  cacheCreation?: number | undefined;
}

/**
 * Takes the counts of an event: in a stream they are cumulative, and any event may have any of them. The
 * input is the sum of all three (Anthropic API reference, `usage`). `iterations` are parts of them, or of
 * other work.
 */
export function takeUsage(answer: GrowingAnswer, counts: Counts, usage: Fields): void {
  const { output_tokens, output_tokens_details } = usage;
  const given = {
    input: countOf(usage['input_tokens']),
    cacheRead: countOf(usage['cache_read_input_tokens']),
    cacheCreation: countOf(usage['cache_creation_input_tokens']) ?? creation(fields(usage['cache_creation'])),
  };
  // An answer has tokens: a final 0 means that the server did not count.
  const uncounted = counts.input !== undefined && !given.cacheRead && !given.cacheCreation;
  counts.input = (uncounted && given.input === 0 ? undefined : given.input) ?? counts.input;
  counts.cacheRead = given.cacheRead ?? counts.cacheRead;
  counts.cacheCreation = given.cacheCreation ?? counts.cacheCreation;
  const { input, cacheRead, cacheCreation } = counts;
  answer.count({
    input: sumWith(input, cacheRead, cacheCreation),
    output: countOf(output_tokens),
    cacheRead,
    cacheCreation,
    reasoning: countOf(fields(output_tokens_details)['thinking_tokens']),
  });
}

/** Cached tokens by lifetime. */
function creation({ ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long }: Fields) {
  return isCount(short) || isCount(long) ? sum(short, long) : undefined;
}
