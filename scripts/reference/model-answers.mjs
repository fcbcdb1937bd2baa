// docs/reference/model-answers.md: the recorded answers of test/vectors, and what each of them makes.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { GENERATED, table } from './table.mjs';

const VECTORS = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '..', 'test', 'vectors');
const json = (...names) => JSON.parse(readFileSync(path.join(VECTORS, ...names), 'utf8'));

const INTERFACES = [
  {
    ...{ title: 'Chat completions', directory: 'chat' },
    rules: `OpenAI's chat completions, also from other servers.

- **Output**: the first choice; each further choice is an artifact. The words are those of \`message.content\`, of \`delta.content\` in a stream, or the refusal. Citations and annotations are not words.
- **Reasoning**: the first of \`reasoning_content\`, \`reasoning\`, \`reasoning_text\`, \`thinking\`, \`reasoning_details\` and \`thinking_blocks\` that has words; the others repeat it.
- **Tools**: a piece belongs to the call of its index or id, otherwise to the last call. A new id begins a new call; so does a name after complete arguments.
- **Ending**: an answer in one piece is complete if it has a choice, a stream if every choice that began has a \`finish_reason\`, or with \`[DONE]\`. An error takes precedence.
- **Tokens**: \`input_tokens\` include cached tokens, \`output_tokens\` reasoning. If a server counts them apart, which \`total_tokens\` or a part larger than the whole shows, they are added.

Not read: \`logprobs\`, \`system_fingerprint\`, \`service_tier\`, costs, timings.`,
  },
  {
    ...{ title: 'Responses', directory: 'responses' },
    rules: `OpenAI's Responses API, also from other servers.

- **Output**: the text of the assistant's messages in order. Commentary beside other words, and messages of other agents, are kept with the reasoning.
- **Reasoning**: content, then a summary with other words. Encrypted content has no words.
- **Tools**: the input is \`arguments\`, \`input\`, \`code\`, \`revised_prompt\`, \`operation\`, \`actions\`, \`action\`, \`queries\` or \`query\`; the id \`call_id\` or \`id\`; the name \`name\` or the type of the item. A call with its output in the same answer was run by the provider.
- **Ending**: by \`status\`. A stream without a final event is cut off, unless it ends with \`[DONE]\`. In a stream the last event that has the words counts: the response, the item, the part, or the pieces.

Not read: \`tool_usage\`, \`moderation\`, \`metadata\`, \`conversation\`, \`service_tier\`, annotations, costs.`,
  },
  {
    ...{ title: 'Messages', directory: 'messages' },
    rules: `Anthropic's Messages API, also from other servers.

- **Output**: \`text\` blocks in order. **Reasoning**: \`thinking\` blocks with words. **Tools**: \`tool_use\` is run by the application, \`server_tool_use\` and \`mcp_tool_use\` by the provider.
- **Ending**: complete with a \`stop_reason\`; \`pause_turn\` is unfinished. A stream without a \`stop_reason\` is cut off. An error event is a failure.
- **Tokens**: \`input_tokens\` are the sum of Anthropic's three input counts. Counts in \`message_delta\` are cumulative.

Not read: \`container\`, \`context_management\`, \`diagnostics\`, \`stop_sequence\`, \`stop_details\`, \`service_tier\`. Batches and \`count_tokens\` are not calls.`,
  },
  {
    ...{ title: 'AI SDK', directory: 'ai-sdk' },
    rules: `Results of language models in versions 5 to 7 of the AI SDK, in one piece or as a stream of parts.

- **Output**: \`text\` parts. **Reasoning**: \`reasoning\` parts. **Tools**: \`tool-call\`; with \`providerExecuted\`, or with its result beside it, the provider has run it.
- **Ending**: by \`finishReason\`. A stream without \`finish\` is cut off.`,
  },
  {
    ...{ title: 'LangChain', directory: 'langchain' },
    rules: `Results that LangChain.js reports to its callbacks.

- **Output**: the content of \`generations[0][0]\`; further generations are choices. Words of a plain model are used only if nothing else is read.
- **Reasoning**: the first place with words among content blocks and \`additional_kwargs\`.
- **Tools**: \`tool_calls\`, \`invalid_tool_calls\`, older forms where these are empty, and hosted tools of the provider.
- **Ending**: complete with a reason in \`response_metadata\`, \`generationInfo\` or \`additional_kwargs\`.
- **Tokens**: \`usage_metadata\` takes precedence. Estimates are not read.`,
  },
];

const many = (count, one) => `${count} ${one}${count === 1 ? '' : 's'}`;

/** What is captured of an answer, in a few words. */
function captured({ ending, shown, text, ...rest }) {
  const { status, error_name: error, reasoning, tools = [], choices = [], media = {} } = rest;
  const { refused, unread_parts: unread = 0, finish_reason: reason, usage = {} } = rest;
  const byProvider = tools.filter((tool) => tool.by_provider === true).length;
  const asked = tools.length - byProvider;
  const cached = ['cache_read_input_tokens', 'cache_creation_input_tokens', 'reasoning_output_tokens'];
  return [
    ending + (status === undefined ? '' : ` (${status})`),
    error !== undefined && `error \`${error}\``,
    ending === 'complete' && reason !== undefined && reason !== 'stop' && `reason \`${reason}\``,
    shown ? 'shown' : text === '' ? 'no words' : 'words, not shown',
    refused === true && 'refused',
    reasoning !== undefined && 'reasoning',
    asked > 0 && many(asked, 'tool call'),
    byProvider > 0 && many(byProvider, 'tool call') + ' by the provider',
    choices.length > 0 && many(choices.length, 'further choice'),
    ...Object.entries(media).map(([kind, count]) => `${count} ${kind}`),
    cached.some((name) => usage[name] > 0) && 'cached or reasoning tokens',
    unread > 0 && many(unread, 'unread part'),
  ]
    .filter((part) => part !== false)
    .join('; ');
}

function answers({ title, directory, rules }) {
  const rows = readdirSync(path.join(VECTORS, 'answers', directory))
    .sort()
    .map((file) => {
      const { row, from, expected } = json('answers', directory, file);
      return [row, from.servers.join(', '), captured(expected), `\`${file.replace('.json', '')}\``];
    });
  return `## ${title}\n\n${rules}\n\n${table(['in the answer', 'servers', 'captured', 'recording'], rows)}\n`;
}

/** Emitters of spans, each with the numbers of its recordings. */
function emitters() {
  const numbers = new Map();
  for (const name of readdirSync(path.join(VECTORS, 'otlp')).sort((a, b) => parseInt(a) - parseInt(b))) {
    const number = /^(\d+)-/.exec(name)?.[1];
    if (number === undefined) continue;
    const readme = readFileSync(path.join(VECTORS, 'otlp', name, 'README.md'), 'utf8');
    const emitter = /^emitter: (.*)$/m.exec(readme)?.[1] ?? '';
    numbers.set(emitter, [...(numbers.get(emitter) ?? []), number]);
  }
  return table(
    ['emitter', 'recordings'],
    [...numbers].map(([emitter, list]) => [emitter, list.map((number) => `\`${number}\``).join(', ')]),
  );
}

export function modelAnswers() {
  return `# Answers of models

${GENERATED}

Each row is a recorded answer in \`test/vectors/answers\` with the result that a person expects of it. The clients for Node.js and Python read all of them. A part of unknown form is kept and counted as unread, not guessed.

${INTERFACES.map(answers).join('\n')}
## Spans

A span is read alone, by the first dialect that knows it. [OTLP](otlp.md#which-span-is-what) lists the dialects and the attributes. Recordings are the directories of \`test/vectors/otlp\`, here by number; \`test/vectors/spans\` has further forms.

${emitters()}
`;
}
