/** Answers of models as LangChain.js reports them to its callbacks. */
import { fields, type Fields, type GrowingAnswer, list, text } from '../answer.js';

export function takeResult(answer: GrowingAnswer, { generations, llmOutput }: Fields): void {
  const generation = fields(list(list(generations)[0])[0]);
  const message = fields(generation['message']);
  const { response_metadata, usage_metadata, tool_calls, id } = message;
  const said = { ...fields(generation['generationInfo']), ...fields(response_metadata) };
  answer.id = text(id);
  answer.model = text(said['model_name']) ?? text(said['model']);
  answer.finishReason = text(said['finish_reason']) ?? text(said['stop_reason']);
  answer.text = text(message['text']) ?? text(generation['text']) ?? '';
  const { promptTokens, completionTokens } = fields(fields(llmOutput)['tokenUsage']);
  answer.count({ input: promptTokens, output: completionTokens });
  const { input_tokens, output_tokens } = fields(usage_metadata);
  answer.count({ input: input_tokens, output: output_tokens });
  for (const [at, called] of list(tool_calls).entries()) {
    const { id: callId, name, args } = fields(called);
    const call = answer.toolCall(at);
    call.id = text(callId);
    call.name = text(name);
    if (args !== undefined) call.input = JSON.stringify(args);
  }
}
