/** Reads the items of a response: words, reasoning and tool calls. */
import {
  asText,
  fields,
  type Fields,
  list,
  type Medium,
  text,
  type ToolCall,
} from '@clinical-events/protocol/spans';

/** The words of an answer, and what preceded it: reasoning, commentary, other agents. */
export interface Said {
  words: string;
  readonly way: { readonly words: string; readonly thought: boolean }[];
  refused: boolean;
  asksForApproval: boolean;
  readonly tools: ToolCall[];
  readonly media: Medium[];
  readonly unread: unknown[];
}

export function read(output: readonly unknown[]): Said {
  const lists = { way: [], tools: [], media: [], unread: [] };
  const said: Said = { words: '', refused: false, asksForApproval: false, ...lists };
  const items = output.map(fields);
  const answered = new Set<unknown>();
  for (const { type, call_id, id } of items) {
    if (text(type)?.endsWith('_output')) answered.add(text(call_id)).add(text(id));
  }
  answered.delete(undefined);
  for (const item of items) readItem(said, item, answered);
  return said;
}

/** Items without words or tool calls. */
const SILENT = new RegExp(
  '^(compaction|additional_tools|configuration_update|mcp_list_tools|mcp_approval_response|' +
    'item_reference|.*_output)$',
);

function readItem(said: Said, item: Fields, answered: ReadonlySet<unknown>): void {
  const { role, content, summary, call_id, id, name } = item;
  const type = text(item['type']) ?? (role === 'assistant' ? 'message' : '');
  if (type === 'message' && (role === undefined || role === 'assistant')) readMessage(said, item);
  else if (type === 'reasoning') {
    const [thought, short] = [wordsOf(content), wordsOf(summary)];
    said.way.push({ words: thought.includes(short) ? thought : thought + short, thought: true });
  } else if (/(_call|^mcp_approval_request|^program|^openrouter:.*)$/.test(type)) {
    const byProvider = answered.has(call_id) || answered.has(id) || isRunByProvider(type, item);
    said.tools.push({
      id: text(call_id) ?? text(id),
      name: text(name) ?? type,
      input: asked(item),
      byProvider,
    });
    if (type === 'mcp_approval_request') said.asksForApproval = true;
    if (type === 'image_generation_call' && item['result']) said.media.push('image');
  } else if (!SILENT.test(type)) said.unread.push(item);
}

/** Text that is not the answer itself: commentary, and messages of subordinate agents. */
function isAside({ phase, agent }: Fields): boolean {
  const name = text(fields(agent)['agent_name']);
  return phase === 'commentary' || phase === 'analysis' || (name !== undefined && !/^\/?root$/.test(name));
}

function readMessage(said: Said, item: Fields): void {
  const { content } = item;
  const parts = typeof content === 'string' ? [content] : list(content);
  for (const part of parts) {
    const { type, refusal } = fields(part);
    const words = wordsOf([part]);
    const kind = text(type) ?? '';
    const medium = (['image', 'audio', 'video', 'file'] as const).find((each) => kind.includes(each));
    if (medium) said.media.push(medium);
    if (kind === 'reasoning_text' || kind === 'summary_text') said.way.push({ words, thought: true });
    else if (isAside(item)) said.way.push({ words, thought: false });
    else said.words += words;
    if (text(refusal) !== undefined) said.refused = true;
    else if (!medium && words === '' && !/^(output_text|text)$/.test(kind) && part !== '')
      said.unread.push(part);
  }
}

export function wordsOf(parts: unknown): string {
  if (typeof parts === 'string') return parts;
  const words = list(parts).map((part) => {
    const { text: said, refusal, transcript } = fields(part);
    return text(part) ?? text(said) ?? text(refusal) ?? text(transcript) ?? '';
  });
  return words.join('');
}

const ASKED_IN = [
  'arguments',
  'input',
  'code',
  'revised_prompt',
  'operation',
  'actions',
  'action',
  'queries',
  'query',
];

export function asked(item: Fields): string {
  const value = ASKED_IN.map((name) => item[name]).find(
    (each) => each !== '' && (each ?? undefined) !== undefined,
  );
  if (typeof value !== 'object') return text(value) ?? '';
  // The results of a search are not part of its input.
  return asText(Array.isArray(value) ? value : { ...value, sources: undefined });
}

const OF_APPLICATION = /^(function|custom_tool|computer|local_shell|apply_patch)_call$/;
const OF_PROVIDER = new RegExp(
  '^(program|mcp_approval_request|openrouter:.*|(web_search|file_search|code_interpreter|code_execution|' +
    'image_generation|mcp|x_search|web_fetch|multi_agent)_call)$',
);
/** Searches that xAI runs itself, sent as calls of custom tools. */
const OF_XAI = /^x_(user_search|keyword_search|semantic_search|thread_fetch)$/;

function isRunByProvider(type: string, { name, execution, environment, call_id }: Fields): boolean {
  if (type === 'custom_tool_call') return OF_XAI.test(text(name) ?? '');
  if (OF_APPLICATION.test(type)) return false;
  if (type === 'shell_call') return (text(fields(environment)['type']) ?? '').startsWith('container');
  if (type === 'tool_search_call' && text(execution)) return execution !== 'client';
  // The application answers a call by its call_id.
  return OF_PROVIDER.test(type) || text(call_id) === undefined;
}
