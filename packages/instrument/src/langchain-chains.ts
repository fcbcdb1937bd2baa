/** How many models a chain of LangChain's calls: most wrappers call one and are not worth a run of their own. */
import { fields, type Fields, list } from './answer.js';
import { quietly } from './model-call.js';

const DEEPEST = 32;

/** At most, as far as it can be seen. Infinity where anything may be in it: a function, a graph, a retriever. */
export function modelsIn(chain: unknown): number {
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
  if (bound !== undefined) return isOnce(step) ? of(bound) : Infinity;
  if (typeof _llmType === 'function') return 1;
  // Prompts and parsers.
  return typeof (step['formatPromptValue'] ?? step['parseResult']) === 'function' ? 0 : Infinity;
}

/** RunnableEach has nothing beside what it calls for each of its inputs. */
function isOnce(step: Fields): boolean {
  return step['config'] !== undefined || step['kwargs'] !== undefined;
}
