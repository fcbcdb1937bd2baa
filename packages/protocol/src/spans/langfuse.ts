/** Observations of Langfuse's SDKs. */
import type { Fields } from '../values.js';
import { fields, list, text } from './answer.js';
import { takeChat } from './genai.js';
import type { Dialect, Findings } from './dialect.js';
import { documentOf, parsed, reasonOf } from './values.js';

const KINDS = new Map<unknown, ReturnType<Dialect['kindOf']>>([
  ['generation', 'model'],
  ['agent', 'agent'],
  ['tool', 'tool'],
  ['retriever', 'retrieval'],
  ['evaluator', 'evaluation'],
  ['embedding', { reason: 'embeddings' }],
]);

export const langfuse: Dialect = {
  kindOf({ attributes }, isRoot) {
    const type = attributes['langfuse.observation.type'];
    if (type === 'chain') return isRoot ? 'agent' : { reason: 'inner chains' };
    // A plain Langfuse span can be anything.
    return KINDS.get(type);
  },

  find({ attributes, name }, kind, found) {
    const { answer } = found;
    if (text(attributes['langfuse.observation.type']) === undefined) return;
    if (attributes['langfuse.observation.level'] === 'ERROR') {
      found.failed = true;
      // SDKs begin their messages with the status: only that number is used.
      const message = text(attributes['langfuse.observation.status_message']) ?? '';
      answer.status = Number(/^(?:\w*Error: )?([45]\d\d) /.exec(message)?.[1]) || undefined;
    }
    if (kind === 'tool') found.tool.name ??= name;
    answer.finishReason ??= reasonOf(text(attributes['langfuse.observation.metadata.finish_reason']));
    countUsage(fields(parsed(attributes['langfuse.observation.usage_details'])), found);
    const said = text(attributes['langfuse.observation.output']);
    if (said === undefined) return;
    const told = parsed(said) ?? said;
    if (kind === 'retrieval' && found.documents.length === 0)
      found.documents = list(fields(told)['documents'] ?? told).map(documentOf);
    if (kind === 'evaluation') found.evaluations.push({ name, score: fields(told)['score'] });
    if (found.answered || (kind !== 'model' && kind !== 'agent')) return;
    found.answered = true;
    const { content, tool_calls: calls } = fields(told);
    if (text(told) !== undefined || content !== undefined || calls !== undefined)
      takeChat(answer, 0, told, undefined, kind);
    else answer.text = said;
  },
};

/** Reads usage under the names of Langfuse, of chat completions or of responses. */
function countUsage(usage: Fields, found: Findings): void {
  const inputDetails = fields(usage['prompt_tokens_details'] ?? usage['input_tokens_details']);
  const outputDetails = fields(usage['completion_tokens_details'] ?? usage['output_tokens_details']);
  const input = usage['input'] ?? usage['prompt_tokens'] ?? usage['input_tokens'];
  const output = usage['output'] ?? usage['completion_tokens'] ?? usage['output_tokens'];
  const cached = usage['input_cached_tokens'] ?? usage['cache_read_input_tokens'];
  const cacheRead = cached ?? inputDetails['cached_tokens'];
  const cacheCreation = usage['cache_creation_input_tokens'] ?? usage['input_cache_creation'];
  const reasoning = usage['output_reasoning_tokens'] ?? outputDetails['reasoning_tokens'];
  const total = usage['total'] ?? usage['total_tokens'];
  // The total shows whether the details are included in the first two.
  const apart = Number(total) > Number(input) + Number(output);
  const withReasoning = apart ? Number(output) + (Number(reasoning) || 0) : output;
  found.count({ input, output: withReasoning, cacheRead, cacheCreation, reasoning }, apart);
}
