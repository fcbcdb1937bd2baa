/**
 * Preconditions for erasing events: the floors of the policy that keep them, and the keys that encrypt them.
 */
import type { Actions } from '../../privacy/actions.js';
import type { TakenKeys } from '../../privacy/payload-keys.js';
import { type KeptFacts, policyFrom, type RetentionPolicy } from '../../privacy/retention-policy.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import type { RunSummary } from '../../catalogue/run-summary.js';
import type { EventLog } from '../../store/contract/events.js';
import type { LogRun, LogRuns } from './log-runs.js';
import type { LogEvent } from './log-pass.js';

export interface Floor {
  readonly id: string;
  /** Milliseconds since 1970; Infinity for no end. */
  readonly until: number;
}

export function factsOf({ organisation, modelId, modelVersion }: RunSummary): KeptFacts {
  return {
    organisation,
    ...(modelId !== null && { model_id: modelId }),
    ...(modelVersion !== null && { model_version: modelVersion }),
  };
}

/** The rule for an event: a rule about single events matches its kind; all others match the run. */
export function ruleOf(policy: RetentionPolicy, facts: KeptFacts, kind: string) {
  const ofEvent = { ...facts, kind };
  const single = policy.ruleFor(ofEvent);
  return single.unit === 'event' ? { ...single, facts: ofEvent } : { ...policy.ruleFor(facts), facts };
}

/** The floor of a policy that keeps an event at a time, in milliseconds since 1970. */
export function floorOn(
  policy: RetentionPolicy,
  facts: KeptFacts,
  { kind, receivedAt }: Pick<LogEvent, 'kind' | 'receivedAt'>,
  now: number,
): Floor | undefined {
  if (policy.isAboveFloors(ruleOf(policy, facts, kind).facts)) return undefined;
  return policy.heldBy({ ...facts, kind }, receivedAt, now);
}

/** The floor of the active policy that keeps an event now. Facts about the model are read from the log. */
export async function floorsOf(
  reader: LogRuns,
  { policy: set }: Actions,
  runs: ReadonlySet<LogRun>,
): Promise<(run: LogRun, event: LogEvent) => Floor | undefined> {
  if (set === undefined) return () => undefined;
  const policy = policyFrom(set.policy);
  const now = Date.now();
  const facts = new Map<LogRun, KeptFacts>();
  for await (const [run, summary] of reader.summaries([...runs])) facts.set(run, factsOf(summary));
  return (run, event) => floorOn(policy, facts.get(run) ?? { organisation: run.organisation }, event, now);
}

const READ_TOGETHER = 1024;

/** The keys of events, one entry per bucket and organisation; and the events without a key. */
export function keysOf(
  log: EventLog,
  events: readonly Pick<LogEvent, 'organisation' | 'sequence' | 'at' | 'size'>[],
): { readonly keys: readonly TakenKeys[]; readonly plain: ReadonlySet<number> } {
  const byKey = new Map<string, { tag: number; organisation: string; sequences: number[] }>();
  const plain = new Set<number>();
  for (let at = 0; at < events.length; at += READ_TOGETHER) {
    const some = events.slice(at, at + READ_TOGETHER);
    const buckets = log.buckets?.(some) ?? [];
    for (const [i, { organisation, sequence }] of some.entries()) {
      const tag = buckets[i];
      if (tag === undefined) plain.add(sequence);
      else {
        const name = `${tag} ${organisation}`;
        const keys = byKey.get(name) ?? { tag, organisation, sequences: [] };
        byKey.set(name, keys);
        keys.sequences.push(sequence);
      }
    }
  }
  const keys = [...byKey.values()].map((each) => ({ ...each, sequences: SequenceSet.of(each.sequences) }));
  return { keys, plain };
}
