/**
 * Reads answers of the Responses API of OpenAI and of compatible servers (docs/reference/model-answers.md).
 */
import { fields, type Fields, type GrowingAnswer, list, text } from '@clinical-events/protocol/spans';
import type { AnswerReader } from './reader.js';
import { read, type Said } from './response-items.js';
import { ResponseStream } from './response-stream.js';

export const RESPONSES: AnswerReader = {
  whole(answer, response) {
    takeEnd(answer, response);
    // The parts of an answer in progress are sent again when it is fetched later.
    if (answer.ending === 'unfinished') return;
    take(answer, read(list(response['output'])), response);
  },
  piece(answer, event) {
    const type = text(event['type']) ?? '';
    if (type === 'error' || type === '') {
      if (type !== '' || event['error']) answer.fail(event['error'] ?? { ...event, type: undefined });
      return;
    }
    const stream = answer.keeping(ResponseStream);
    if (stream.words(type, event)) return;
    const dot = type.lastIndexOf('.');
    const [name, how] = [type.slice(0, dot), type.slice(dot + 1)];
    const response = fields(event['response']);
    if (name === 'response' && LAST.has(how)) {
      stream.response = response;
      takeEnd(answer, response, how);
    } else if (name === 'response') takeIdentity(answer, response);
    else if (name === 'response.output_item') stream.item(event, how === 'done');
    else if (how === 'delta' || how === 'done') stream.piece(name, event, how === 'done');
  },
  end(answer) {
    const { kept } = answer;
    if (kept instanceof ResponseStream) take(answer, read(kept.output), kept.response);
  },
};

const ENDINGS = new Map([
  ['completed', 'complete'],
  ['done', 'complete'],
  // Cut by a limit or a filter, which the reason names.
  ['incomplete', 'complete'],
  ['cancelled', 'aborted'],
] as const);

/** Events that end a response. */
const LAST = new Set([...ENDINGS.keys(), 'failed']) as ReadonlySet<string>;

/** @param how the end by the event's name, used if the status is not final. */
function takeEnd(answer: GrowingAnswer, response: Fields, how?: string): void {
  takeIdentity(answer, response);
  const { usage, status, error, incomplete_details, output, output_text, object } = response;
  const { input_tokens, output_tokens, prompt_tokens, completion_tokens, ...details } = fields(usage);
  const input = fields(details['input_tokens_details'] ?? details['prompt_tokens_details']);
  const made = fields(details['output_tokens_details'] ?? details['completion_tokens_details']);
  answer.count({
    ...{ input: input_tokens ?? prompt_tokens, output: output_tokens ?? completion_tokens },
    ...{ cacheRead: input['cached_tokens'], cacheCreation: input['cache_write_tokens'] },
    reasoning: made['reasoning_tokens'],
  });
  answer.finishReason = text(fields(incomplete_details)['reason']) ?? text(status);
  const stale = how !== undefined && (status === 'queued' || status === 'in_progress');
  const said = (stale ? how : text(status)) ?? how;
  if (error || object === 'error') answer.fail(error ? error : response);
  else if (said === 'failed') answer.fail(error);
  else if (said !== undefined) answer.ending = ENDINGS.get(said as 'done') ?? 'unfinished';
  else if (Array.isArray(output) || text(output_text) !== undefined) answer.ending = 'complete';
}

function takeIdentity(answer: GrowingAnswer, { id, model }: Fields): void {
  answer.id = text(id) ?? answer.id;
  answer.model = text(model) ?? answer.model;
}

function take(answer: GrowingAnswer, said: Said, { output_text }: Fields): void {
  const aside = said.way.flatMap(({ words, thought }) => (thought ? [] : words)).join('');
  const thoughts = said.way.filter(({ thought }) => thought || said.words !== '');
  answer.text = said.words || aside || (text(output_text) ?? '');
  answer.reasoning = thoughts.map(({ words }) => words).join('');
  answer.refused ||= said.refused;
  for (const [at, tool] of said.tools.entries()) Object.assign(answer.toolCall(at), tool);
  for (const kind of said.media) answer.medium(kind);
  for (const part of said.unread) answer.notRead(part);
  if (said.asksForApproval && answer.ending === 'complete') answer.ending = 'unfinished';
}
