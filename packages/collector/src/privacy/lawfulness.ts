/**
 * Whether events that the log says are erased could be: by the policy that was in force, its floors, and the holds. Pure.
 *
 * Of an erased event the envelope is left, and the log has every policy and the time of every action. What its payload
 * said alone, the model and whom it was about, is gone: so rules and floors that name a model are held against nothing, and
 * a hold on a subject against what it met when it began.
 */
import { ABOVE_FLOORS, type Actions, eventsOf, type LoggedAction, type Retire } from './actions.js';
import {
  type KeptFacts,
  policyFrom,
  PolicyFault,
  type RetentionPolicy,
  untilText,
} from './retention-policy.js';
import { SequenceSet } from './sequence-set.js';

/** What is left of one. */
export interface ErasedEvent {
  readonly sequence: number;
  readonly organisation: string;
  readonly kind: string;
  readonly receivedAt: number;
  /** Of the record that it is of. */
  readonly recordId: string;
}

/** What a hold holds, as far as an envelope can tell. */
export interface HeldThings {
  readonly name: string;
  readonly runs: readonly string[];
  readonly organisations: readonly string[];
  /** What it met when it began. */
  readonly events: SequenceSet;
}

/** What was in force when an action was logged. */
interface InForce {
  readonly at: number;
  readonly said: Retire;
  readonly policyBy: string | undefined;
  /** Undefined when none was set, or it is of a version that is not known here. */
  readonly policy: RetentionPolicy | undefined;
  readonly holds: readonly HeldThings[];
  /** One of which nobody can tell what it held. */
  readonly unknownHold: string | undefined;
}

interface Stretch {
  readonly first: number;
  readonly end: number;
  readonly by: InForce;
}

export class Lawfulness {
  readonly #stretches: Stretch[] = [];
  /** The stretch that was asked of last. */
  #place = 0;

  /** @param holds by the actions with which they began. While one stood that is missing, nothing was shown to be lawful. */
  constructor(actions: Actions, holds: ReadonlyMap<string, HeldThings>) {
    let policyBy: string | undefined;
    let policy: RetentionPolicy | undefined;
    const held = new Map<string, HeldThings | undefined>();
    let erased = SequenceSet.EMPTY;
    for (const { said, at } of actions.logged) {
      if (said.does === 'policy') [policyBy, policy] = [said.action, known(said.policy)];
      else if (said.does === 'unhold') held.delete(said.hold);
      else if (said.does === 'hold') held.set(said.action, holds.get(said.action));
      else if (said.does === 'retire') {
        const sequences = eventsOf(said.keys);
        const standing = [...held.values()].filter((things) => things !== undefined);
        const unknownHold = [...held].find(([, things]) => things === undefined)?.[0];
        const by = { at, said, policyBy, policy, holds: standing, unknownHold };
        for (const { first, end } of sequences.without(erased)) this.#stretches.push({ first, end, by });
        erased = erased.with(sequences);
      }
    }
    this.#stretches.sort((a, b) => a.first - b.first);
  }

  /** Why an event could not be erased, and by which action it was; undefined when it could. To be asked in their order. */
  faultOf(event: ErasedEvent): { readonly action: string; readonly why: string } | undefined {
    const { sequence } = event;
    while ((this.#stretches[this.#place]?.end ?? Infinity) <= sequence) this.#place++;
    const stretch = this.#stretches[this.#place];
    if (stretch === undefined || sequence < stretch.first) return undefined;
    const { by } = stretch;
    const why = heldBy(by, event) ?? dueBy(by, event) ?? floorOf(by, event) ?? unknownTo(by);
    return why === undefined ? undefined : { action: by.said.action, why };
  }
}

/** The holds of a log that were ever begun, and what binds their records. */
export function holdsEver(actions: Actions): { readonly action: string; readonly record: string }[] {
  return actions.logged.flatMap(({ said }: LoggedAction) => (said.does === 'hold' ? [said] : []));
}

function known(policy: unknown): RetentionPolicy | undefined {
  try {
    return policyFrom(policy);
  } catch (error) {
    if (error instanceof PolicyFault) return undefined;
    throw error;
  }
}

function heldBy({ holds }: InForce, { organisation, recordId, sequence }: ErasedEvent): string | undefined {
  const hold = holds.find(
    ({ organisations, runs, events }) =>
      organisations.includes(organisation) || runs.includes(recordId) || events.has(sequence),
  );
  return hold && `the hold ${hold.name} was on it`;
}

function unknownTo({ unknownHold }: InForce): string | undefined {
  return unknownHold && `hold ${unknownHold} stood, and its record is not here as it was written`;
}

function dueBy({ at, said, policy, policyBy }: InForce, event: ErasedEvent): string | undefined {
  if (said.reason !== 'policy') return undefined;
  if (policyBy === undefined || said.policy !== policyBy) return 'the policy that it names was not in force';
  if (policy === undefined) return 'the policy of that time is none that is known here';
  return policy.whyNotDue(said.rule ?? '', factsOf(event), event.receivedAt, at);
}

function floorOf({ at, said, policy }: InForce, event: ErasedEvent): string | undefined {
  if (said.override && ABOVE_FLOORS.includes(said.reason)) return undefined;
  const facts = factsOf(event);
  if (policy === undefined || policy.mayBeAboveFloors(facts)) return undefined;
  const floor = policy.heldBy(facts, event.receivedAt, at);
  return floor && `the floor "${floor.id}" of the policy kept it ${untilText(floor.until)}`;
}

function factsOf({ organisation, kind }: ErasedEvent): KeptFacts {
  return { organisation, kind };
}
