/** The input and the result of mapping a span or log record: events, or the reason why there are none. */
import { type Fields, text } from '@clinical-events/protocol/spans';
import type { MadeEvent } from './made-event.js';

export interface MappingOptions {
  readonly organisation: string;
  /** `marked`: only spans with `clinical_events.shown` are outputs. */
  readonly shown: 'default' | 'marked';
  /** Names of evaluations that are outcomes. */
  readonly outcomes: ReadonlySet<string>;
  readonly maxEventBytes: number;
}

export interface Mapped {
  readonly events: readonly MadeEvent[];
  /** The reason why there are no events. */
  readonly reason?: Reason | undefined;
}

/** Labels of a metric: few, and never renamed. */
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

/** The reason for each cause that `identify` returns. */
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
/** Attributes that mark a span as one of the dialects, with any value. */
const KINDS = ['gen_ai.operation.name', 'traceloop.span.kind', 'langfuse.observation.type'];

export function none(reason: Reason): Mapped {
  return { events: [], reason };
}

export function reasonOf({ attributes }: { readonly attributes: Fields }, cause: string): Reason {
  const isOfDialect = KINDS.some((name) => text(attributes[name]) !== undefined);
  return BY_CAUSE[cause] ?? (isOfDialect ? 'other_operation' : 'not_about_models');
}
