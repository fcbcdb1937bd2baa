/** OpenLLMetry, by Traceloop: its SDKs, and its instrumentations before they adopted the GenAI names. */
import { fields, list, text } from './answer.js';
import type { Dialect } from './dialect.js';
import { documentOf, indexed, inputOf, lastMessage, parsed, wordsOf } from './values.js';

/** In its spans, every runnable of LangChain is a workflow without a parent. */
const LANGCHAIN = '@traceloop/instrumentation-langchain';

export const traceloop: Dialect = {
  kindOf({ attributes, scope }) {
    const kind = attributes['traceloop.span.kind'];
    if (kind === 'tool') return 'tool';
    if (kind === 'workflow' || kind === 'agent' || kind === 'task') {
      if (scope === LANGCHAIN) return { reason: 'runnables of LangChain' };
      return kind === 'task' ? { reason: 'tasks' } : 'agent';
    }
    const request = attributes['llm.request.type'];
    if (request === 'chat' || request === 'completion') return 'model';
    if (request === 'embedding') return { reason: 'embeddings' };
    return text(request) === undefined ? undefined : { reason: 'other requests to models' };
  },

  find({ attributes, name }, kind, found) {
    const { answer } = found;
    const isTool = attributes['traceloop.span.kind'] === 'tool' || kind === 'tool';
    if (isTool) {
      // LangChain's tool result names the tool and the call.
      const output = fields(parsed(attributes['traceloop.entity.output']));
      const said = fields(fields(output['output'] ?? output)['kwargs']);
      const entity = attributes['traceloop.entity.name'] ?? name.replace(/^execute_tool |\.tool$/g, '');
      found.tool.name ??= text(said['name']) ?? entity;
      found.tool.id ??= said['tool_call_id'];
    }
    if (kind === 'retrieval' && found.documents.length === 0)
      found.documents = list(fields(parsed(attributes['traceloop.entity.output']))['documents']).map(
        documentOf,
      );
    answer.model ??= text(attributes['llm.response.model']);
    found.count({
      input: attributes['llm.usage.prompt_tokens'],
      output: attributes['llm.usage.completion_tokens'],
    });
    if (found.answered) return;
    if (kind === 'agent' && attributes['traceloop.entity.output'] !== undefined) {
      found.answered = true;
      const output = parsed(attributes['traceloop.entity.output']);
      const { outputs } = fields(output);
      const said = text(outputs) ?? lastMessage(outputs) ?? text(output);
      answer.text = said ?? text(attributes['traceloop.entity.output']) ?? '';
      return;
    }
    for (const prefix of ['gen_ai.completion', 'llm.completions']) {
      for (const [at, message] of indexed(attributes, prefix).entries()) {
        found.answered = true;
        const choice = answer.choice(at);
        choice.finishReason ??= text(message['finish_reason']);
        choice.text += wordsOf(message['content']);
        choice.reasoning += text(message['reasoning']) ?? '';
        for (const [number, call] of indexed(message, 'tool_calls').entries()) {
          const made = choice.toolCall(number);
          made.id = text(call['id']);
          made.name = text(call['name']);
          made.input = inputOf(call['arguments']);
        }
      }
      if (found.answered) return;
    }
  },
};
