/** The tokens counted by a server of chat completions. */
import { fields, type GrowingAnswer, isCount, isObject, sum } from '@clinical-events/protocol/spans';

/**
 * Gives the counts one meaning for all servers: input includes the cache, and output includes the reasoning.
 * Some servers count these separately, which the total shows, or report parts that exceed the whole.
 */
export function takeUsage(answer: GrowingAnswer, said: unknown): void {
  if (!isObject(said)) return;
  const ofInput = fields(said['prompt_tokens_details']);
  const ofOutput = fields(said['completion_tokens_details']);
  const cacheRead = largest(
    ofInput['cached_tokens'],
    said['cached_tokens'],
    said['cache_read_input_tokens'],
    said['prompt_cache_hit_tokens'],
  );
  const cacheCreation = largest(
    ofInput['cache_write_tokens'],
    ofInput['cache_creation_tokens'],
    ofInput['cache_creation_input_tokens'],
    said['cache_creation_input_tokens'],
  );
  const reasoning = largest(ofOutput['reasoning_tokens'], said['reasoning_tokens']);
  let input = largest(said['prompt_tokens'], said['input_tokens']);
  let output = largest(said['completion_tokens'], said['output_tokens']);
  const total = largest(said['total_tokens']) ?? 0;
  if (input !== undefined) {
    const cached = sum(cacheRead, cacheCreation);
    let rest = total - input - (output ?? 0);
    if (cached > input || (cached > 0 && rest === cached)) {
      input += cached;
      rest -= cached;
    }
    if (reasoning ? reasoning > (output ?? 0) || rest === reasoning : rest > 0)
      output = (output ?? 0) + (reasoning || rest);
  }
  answer.count({ input, output, cacheRead, cacheCreation, reasoning });
}

function largest(...counts: readonly unknown[]): number | undefined {
  const all = counts.filter(isCount);
  return all.length === 0 ? undefined : Math.max(...all);
}
