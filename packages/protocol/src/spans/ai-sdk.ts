/** The AI SDK, versions 4 to 6, and the legacy telemetry of 7. */
import { fields, list, text } from './answer.js';
import type { Dialect, SpanData } from './dialect.js';
import { inputOf, parsed, reasonOf } from './values.js';

const AGENTS = new Set(['ai.generateText', 'ai.streamText', 'ai.generateObject', 'ai.streamObject']);
/** The error's message when an answer breaks off. Compared, not recorded. */
const BROKEN = 'Failed to process successful response';

export const aiSdk: Dialect = {
  kindOf(span) {
    const operation = operationOf(span);
    if (operation === undefined) return undefined;
    if (/^ai\.\w+\.(doGenerate|doStream)$/.test(operation)) return 'model';
    if (operation === 'ai.toolCall') return 'tool';
    if (AGENTS.has(operation)) return 'agent';
    return { reason: operation.includes('mbed') ? 'embeddings' : 'other operations of the AI SDK' };
  },

  find(span, kind, found) {
    if (operationOf(span) === undefined) return;
    const { attributes, events = [] } = span;
    const { answer } = found;
    const said = (name: string) => attributes[`ai.${name}`];
    answer.id ??= text(said('response.id'));
    answer.model ??= text(said('response.model'));
    answer.finishReason ??= reasonOf(said('response.finishReason') ?? said('finishReason'));
    found.tool.name ??= said('toolCall.name');
    found.tool.id ??= said('toolCall.id');
    const counts = {
      input: said('usage.inputTokens') ?? said('usage.promptTokens'),
      output: said('usage.outputTokens') ?? said('usage.completionTokens'),
      cacheRead: said('usage.inputTokenDetails.cacheReadTokens') ?? said('usage.cachedInputTokens'),
      cacheCreation: said('usage.inputTokenDetails.cacheWriteTokens'),
      reasoning: said('usage.outputTokenDetails.reasoningTokens') ?? said('usage.reasoningTokens'),
    };
    // Version 5 passes on Anthropic's count, which excludes cached input.
    const { usage } = fields(fields(parsed(said('response.providerMetadata')))['anthropic']);
    const anthropic = fields(usage);
    if (anthropic['input_tokens'] === counts.input && counts.input !== undefined) {
      counts.cacheRead ??= anthropic['cache_read_input_tokens'];
      counts.cacheCreation ??= anthropic['cache_creation_input_tokens'];
      answer.usage = {};
      found.count(counts, true);
    } else found.count(counts);
    for (const { attributes: exception } of events)
      if (exception?.['exception.message'] === BROKEN) found.ending = 'cut off';
    if (found.answered) return;
    const words = text(said('response.text') ?? said('response.object') ?? said('result.text'));
    const calls = said('response.toolCalls') ?? said('result.toolCalls');
    if (words === undefined && calls === undefined) return;
    found.answered = true;
    answer.text = words ?? '';
    answer.reasoning = text(said('response.reasoning')) ?? '';
    if (kind === 'agent') return;
    for (const [number, call] of list(parsed(calls)).entries()) {
      const { toolCallId, toolName, input, args, providerExecuted, invalid } = fields(call);
      const made = answer.toolCall(number);
      made.id = text(toolCallId);
      made.name = text(toolName);
      made.input = inputOf(input ?? args);
      made.byProvider = providerExecuted === true;
      if (invalid === true) made.invalid = true;
    }
  },
};

function operationOf({ attributes, name }: SpanData): string | undefined {
  const id = text(attributes['ai.operationId']);
  return id ?? (/^ai\.\w+/.test(name) && text(attributes['operation.name']) !== undefined ? name : undefined);
}
