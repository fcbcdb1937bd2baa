/** Why a span or a log record makes no event: labels of a metric, which are few and never change. */
import { type Fields, text } from '@clinical-events/protocol/spans';

export const REASONS = [
  ...([
    'not_about_models',
    'embeddings',
    'agent_step',
    'inner_chain',
    'prompt',
    'langchain_runnable',
  ] as const),
  ...(['task', 'other_operation', 'no_documents', 'no_trace_id', 'no_span_id'] as const),
];
export type Reason = (typeof REASONS)[number];

/** By the words of `identify`. */
const BY_CAUSE: Readonly<Record<string, Reason>> = {
  embeddings: 'embeddings',
  'steps of agents': 'agent_step',
  'inner chains': 'inner_chain',
  prompts: 'prompt',
  'runnables of LangChain': 'langchain_runnable',
  tasks: 'task',
  'agents that are made': 'other_operation',
  'kinds that are no calls': 'other_operation',
  'other operations': 'other_operation',
  'other operations of the AI SDK': 'other_operation',
  'other requests to models': 'other_operation',
};
/** Attributes by which a span says that it is of one of the dialects, whatever its value. */
const KINDS = ['gen_ai.operation.name', 'traceloop.span.kind', 'langfuse.observation.type'];

export function none(reason: Reason): { readonly events: readonly never[]; readonly reason: Reason } {
  return { events: [], reason };
}

export function reasonOf({ attributes }: { readonly attributes: Fields }, cause: string): Reason {
  const isOfDialect = KINDS.some((name) => text(attributes[name]) !== undefined);
  return BY_CAUSE[cause] ?? (isOfDialect ? 'other_operation' : 'not_about_models');
}
