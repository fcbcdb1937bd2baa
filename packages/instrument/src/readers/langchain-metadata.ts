/** The metadata of an answer in LangChain.js: model name, finish reason, tokens. */
import { fields, type Fields, type GrowingAnswer, isCount, sum, text } from '@clinical-events/protocol/spans';

/** The places where providers' packages put the metadata. */
function sources(generation: Fields): Fields[] {
  const { message, generationInfo } = generation;
  const { response_metadata, additional_kwargs } = fields(message);
  return [response_metadata, generationInfo, additional_kwargs].map(fields);
}

export function takeIdentity(answer: GrowingAnswer, generation: Fields, llmOutput: unknown): void {
  const said = [...sources(generation), fields(llmOutput)];
  const id = text(fields(generation['message'])['id']);
  answer.id = find(said, 'id') ?? (/^(lc_)?run-/.test(id ?? '') ? undefined : id);
  answer.model = find(said, 'model_name', 'model', 'model_id', 'modelId', 'modelVersion');
  // Merged chunks have the requested name, then the name of the model that answered.
  const [alias, both = ''] = [answer.model ?? '', find(said, 'model')];
  if (alias !== '' && both.startsWith(alias + alias)) answer.model = both.slice(alias.length);
}

export function finishOf(generation: Fields): string | undefined {
  const said = sources(generation);
  const [metadata = {}] = said;
  return (
    find(said, 'finish_reason', 'stop_reason', 'done_reason', 'finishReason', 'stopReason') ??
    find([fields(metadata['messageStop'])], 'stopReason') ??
    find([fields(metadata['incomplete_details'])], 'reason') ??
    find([metadata], 'status')
  );
}

/** Providers whose streams end with a reason. */
export function tellsEnds({ message }: Fields): boolean {
  const { model_provider } = fields(fields(message)['response_metadata']);
  return /^(openai|anthropic|openrouter|deepseek|groq|xai)$/.test(text(model_provider) ?? '');
}

function find(said: readonly Fields[], ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const word = said.map((each) => text(each[name])).find(Boolean);
    if (word !== undefined) return once(word);
  }
  return undefined;
}

/** Merged chunks repeat a name: `stopstop`. */
function once(word: string): string {
  for (let times = Math.min(64, Math.floor(word.length / 3)); times > 1; times--) {
    const part = word.slice(0, word.length / times);
    if (part.repeat(times) === word) return part;
  }
  return word;
}

/** Takes the counts of all places; the last one wins, because LangChain made it last. */
export function takeUsage(answer: GrowingAnswer, generation: Fields, llmOutput: unknown): void {
  const { message, generationInfo } = generation;
  const { response_metadata, usage_metadata } = fields(message);
  const metadata = fields(response_metadata);
  const output = fields(llmOutput);
  const usage = fields(metadata['usage'] ?? output['usage']);
  const counted = fields(usage_metadata);
  const tokenUsage = metadata['tokenUsage'] ?? fields(generationInfo)['tokenUsage'];
  const all = [metadata, output['tokenUsage'], tokenUsage, usage, counted];
  for (const each of all) answer.count(countsOf(fields(each)));
  // Older versions have Anthropic's number, which excludes cached tokens.
  if (isApart(usage) && usage['input_tokens'] === counted['input_tokens']) answer.count(countsOf(usage));
}

/** Anthropic and Amazon Bedrock count cached tokens separately. */
function isApart(usage: Fields): boolean {
  const { input_tokens, inputTokens, prompt_tokens } = usage;
  return prompt_tokens === undefined && (input_tokens ?? inputTokens) !== undefined;
}

function countsOf(usage: Fields): Fields {
  const first = (...names: readonly string[]) => names.map((name) => usage[name]).find(isCount);
  const asked = fields(
    usage['input_token_details'] ?? usage['input_tokens_details'] ?? usage['prompt_tokens_details'],
  );
  const made = fields(
    usage['output_token_details'] ?? usage['output_tokens_details'] ?? usage['completion_tokens_details'],
  );
  const given = first(
    ...['input_tokens', 'prompt_tokens', 'promptTokens', 'inputTokens', 'prompt_eval_count'],
  );
  const answered = first(
    ...['output_tokens', 'completion_tokens', 'completionTokens', 'outputTokens', 'eval_count'],
  );
  const [readApart, createdApart] = [
    first('cache_read_input_tokens', 'cacheReadInputTokens'),
    first('cache_creation_input_tokens', 'cacheWriteInputTokens'),
  ];
  const cacheRead = asked['cache_read'] ?? asked['cached_tokens'] ?? readApart;
  const cacheCreation = asked['cache_creation'] ?? createdApart;
  const reasoning = made['reasoning'] ?? made['reasoning_tokens'];
  const cached = sum(cacheRead, cacheCreation);
  const beside = isApart(usage) && sum(readApart, createdApart) > 0;
  const input = given !== undefined && (beside || cached > given) ? given + cached : given;
  // xAI excludes the reasoning from the tokens of the answer, but not from the total.
  const isLess =
    isCount(reasoning) && usage['total_tokens'] === sum(given, answered) + reasoning && reasoning > 0;
  return { input, output: isLess ? sum(answered, reasoning) : answered, cacheRead, cacheCreation, reasoning };
}
