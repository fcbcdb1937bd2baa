/** Which chains of LangChain become runs: most are wrappers of one model and do not. */
import { fields, type Fields, list, text } from '@clinical-events/protocol/spans';
import { quietly } from './model-call.js';

const DEEPEST = 32;
/** The name that `withStructuredOutput` gives to its chain of one model and functions. */
const OF_ONE = /StructuredOutput/;

/**
 * @returns the maximum number of models that a chain calls; Infinity with a function, a graph or a retriever.
 */
export function modelsIn(chain: unknown, name: unknown): number {
  if (OF_ONE.test(text(name) ?? '')) return 1;
  // LangChain passes the chain in serialised form: its class and its arguments.
  const { kwargs } = fields(chain);
  return quietly(() => (kwargs === undefined ? Infinity : modelsOf(fields(kwargs), DEEPEST))) ?? Infinity;
}

function modelsOf(step: Fields, depth: number): number {
  if (depth === 0) return Infinity;
  const of = (each: unknown) => modelsOf(fields(each), depth - 1);
  const all = (each: readonly unknown[]) => each.map(of).reduce((sum, count) => sum + count, 0);
  const { first, middle, last, bound, runnable, fallbacks, steps, mapper, _llmType } = step;
  // RunnableSequence, RunnableWithFallbacks, RunnableMap, RunnableAssign, RunnableBinding and RunnableRetry.
  if (first !== undefined && last !== undefined) return all([first, ...list(middle), last]);
  if (runnable !== undefined) return Math.max(of(runnable), ...list(fallbacks).map(of));
  if (steps !== undefined) return all(Object.values(fields(steps)));
  if (mapper !== undefined) return of(mapper);
  if (OF_ONE.test(text(fields(step['config'])['runName']) ?? '')) return 1;
  if (bound !== undefined) return isOnce(step) ? of(bound) : Infinity;
  if (typeof _llmType === 'function') return 1;
  // Prompts and parsers.
  return typeof (step['formatPromptValue'] ?? step['parseResult']) === 'function' ? 0 : Infinity;
}

/** False for RunnableEach, which calls its only member for each input. */
function isOnce(step: Fields): boolean {
  return step['config'] !== undefined || step['kwargs'] !== undefined;
}

/** Names that LangChain itself gives, which do not name a model or an agent. */
const OF_LANGCHAIN = new RegExp(
  String.raw`^(Runnable|ChannelWrite|ChannelRead|LangGraph$|CompiledGraph$|CompiledStateGraph$|StateGraph$|` +
    String.raw`Pregel|RemoteGraph$|__\w+__$|RouterRunnable$|DynamicRunnable$|\w*StructuredOutput\w*$|` +
    String.raw`AgentExecutor$|\w+Chain$|retrieval_chain$|retrieve_documents$|stuff_documents_chain$|` +
    String.raw`history_aware_retriever$|format_\w+$)`,
);

/** Whether the application named the chain, rather than its class or the class that it wraps. */
export function isGiven(name: unknown, chain: unknown): boolean {
  const { id, kwargs } = fields(chain);
  const { bound } = fields(kwargs);
  const wrapped = quietly(() => (bound as { getName?: () => unknown } | undefined)?.getName?.());
  return name !== list(id).at(-1) && name !== wrapped && !OF_LANGCHAIN.test(text(name) ?? 'Runnable');
}
