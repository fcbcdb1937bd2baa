/** What of LangChain's chains is worth a run of its own: most are wrappers that call one model. */
import { fields, type Fields, list, text } from '@clinical-events/protocol/spans';
import { quietly } from './model-call.js';

const DEEPEST = 32;
/** The name that `withStructuredOutput` gives to what it makes of a model, functions among it. */
const OF_ONE = /StructuredOutput/;

/** At most, as far as it can be seen. Infinity where anything may be in it: a function, a graph, a retriever. */
export function modelsIn(chain: unknown, name: unknown): number {
  if (OF_ONE.test(text(name) ?? '')) return 1;
  // What LangChain gives is the chain as it would be saved: its class, and what it was made of.
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

/** RunnableEach has nothing beside what it calls for each of its inputs. */
function isOnce(step: Fields): boolean {
  return step['config'] !== undefined || step['kwargs'] !== undefined;
}

/** Names that LangChain itself gives: none of them says which model or agent it is. */
const OF_LANGCHAIN =
  /^(Runnable|ChannelWrite|ChannelRead|LangGraph$|CompiledGraph$|CompiledStateGraph$|StateGraph$|Pregel|RemoteGraph$|__\w+__$|RouterRunnable$|DynamicRunnable$|\w*StructuredOutput\w*$|AgentExecutor$|\w+Chain$|retrieval_chain$|retrieve_documents$|stuff_documents_chain$|history_aware_retriever$|format_\w+$)/;

/** Whether the application has given this name to a chain. A class has one of its own, and takes that of what it wraps. */
export function isGiven(name: unknown, chain: unknown): boolean {
  const { id, kwargs } = fields(chain);
  const { bound } = fields(kwargs);
  const wrapped = quietly(() => (bound as { getName?: () => unknown } | undefined)?.getName?.());
  return name !== list(id).at(-1) && name !== wrapped && !OF_LANGCHAIN.test(text(name) ?? 'Runnable');
}
