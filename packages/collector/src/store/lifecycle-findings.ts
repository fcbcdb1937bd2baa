/** Compares the keys of a log with its actions, for `collector verify`. */
import { decodeEnvelope } from '@clinical-events/protocol';
import { type Actions, eventsOf, type Reason, takenBy } from '../privacy/actions.js';
import type { TakenKeys } from '../privacy/payload-keys.js';
import type { StoredKeys } from '../privacy/stored-keys.js';
import { SequenceSet, type SequenceStretch } from '../privacy/sequence-set.js';
import { eventRange, finding, type FindingList, type VerifyFinding } from './findings.js';
import type { AuditedLog, ErasedEvent } from './log-audit.js';
import { isNoId, uuidText } from './text.js';

/** Maximum number of listed findings of a kind; more are only counted. */
const MOST = 10_000;

export interface KeysFound {
  readonly actions: Actions;
  /** Events without a key, or whose payload was removed. */
  readonly keyless: SequenceSet;
  /** Events that could not be read. */
  readonly unread: SequenceSet;
  /** Undefined if there are no keys. */
  readonly keys: Pick<StoredKeys, 'noted'> | undefined;
  /** Events erased by actions after the end of the log that was read. */
  readonly later: SequenceSet;
  /** The events of `shouldBeGone` that opened at a second reading. */
  readonly back: SequenceSet;
}

/**
 * Events that opened although an action destroyed their keys. The action may have come after the reading, so
 * these events must be read again.
 */
export function shouldBeGone({
  actions,
  keyless,
  unread,
  keys,
}: Omit<KeysFound, 'later' | 'back'>): SequenceSet {
  if (keys === undefined) return SequenceSet.EMPTY;
  const pending = eventsOf(actions.taken('undone'));
  return actions.erased.without(pending).without(keyless).without(unread);
}

/**
 * Events whose missing key is explained by an erasure that is not in this log. They are matched by key,
 * because another copy of the log may use the same sequences for other events.
 */
export class ErasedElsewhere {
  readonly #byKey: ReadonlyMap<string, readonly TakenKeys[]>;
  /** Keys of a log in a database. Its mirrors have the same sequences but different keys. */
  readonly #shared: readonly TakenKeys[];
  readonly #found: number[] = [];
  /** Events whose payload was removed together with the name of its key. */
  readonly #nameless: number[] = [];

  constructor(private readonly keys: readonly TakenKeys[]) {
    this.#byKey = Map.groupBy(keys, ({ tag, organisation }) => `${tag} ${organisation}`);
    this.#shared = keys.filter(({ places }) => places !== undefined);
  }

  /** Passes an event without a key. @param key name of the missing key, if known. */
  meet(sequence: number, key: { tag: number; organisation: string } | undefined): void {
    if (key === undefined) {
      if (this.keys.length > 0) this.#nameless.push(sequence);
      return;
    }
    const { tag, organisation } = key;
    const isFound =
      this.#shared.length > 0
        ? this.#shared.some((each) => each.organisation === organisation && each.sequences.has(sequence))
        : this.#byKey.get(`${tag} ${organisation}`)?.some(({ sequences }) => sequences.has(sequence));
    if (isFound) this.#found.push(sequence);
  }

  /** The explained events among those passed. */
  get explained(): SequenceSet {
    return SequenceSet.of(this.#found).with(SequenceSet.of(this.#nameless).within(eventsOf(this.keys)));
  }
}

/**
 * Reports events whose key is missing although no action destroyed it, and events whose key exists although
 * an action destroyed it. Notes of actions beside the keys are not signed and prove nothing.
 */
export function lifecycleFindings(
  { actions, keyless, keys, later, back }: Omit<KeysFound, 'unread'>,
  findings: FindingList,
): Pick<AuditedLog, 'erased' | 'erasing' | 'quarantined'> {
  const add = (name: 'key_missing' | 'key_missing_noted' | 'key_back', sequences: SequenceSet) => {
    for (const [i, { first, end }] of [...sequences].entries())
      if (i < MOST) findings.add(finding(name, { sequence: first }, eventRange(first, end - first)));
      else findings.unlisted++;
  };
  const unerased = keyless.without(actions.erased);
  const explained = unerased.within(later);
  if (explained.size > 0) findings.add(finding('keys_destroyed_later', {}, explained.size));
  const unexplained = unerased.without(later);
  const noted = unexplained.size > 0 ? eventsOf(takenBy(keys?.noted() ?? [])) : SequenceSet.EMPTY;
  add('key_missing', unexplained.without(noted));
  add('key_missing_noted', unexplained.within(noted));
  add('key_back', back);
  const moved = actions.logged.flatMap(({ said }) => (said.does === 'quarantine' ? [said] : []));
  const quarantined = moved.reduce((sum, { batches }) => sum + batches, 0);
  const ids = moved.reduce((sum, each) => sum + each.ids, 0);
  if (moved.length > 0) findings.add(finding('quarantined', {}, quarantined, ids));
  const reasons: Partial<Record<Reason, number>> = {};
  let counted = SequenceSet.EMPTY;
  for (const { said } of actions.logged) {
    if (said.does !== 'erase') continue;
    const own = eventsOf(said.keys).without(counted);
    counted = counted.with(own);
    reasons[said.reason] = (reasons[said.reason] ?? 0) + own.size;
  }
  return { erased: reasons, erasing: eventsOf(actions.taken('undone')).size, quarantined };
}

/** The remaining facts of an erased event; undefined if its envelope cannot be read. */
export function erasedEvent(sequence: number, envelope: Buffer): ErasedEvent | undefined {
  try {
    const { organisation, kind, runId, eventId, parentId } = decodeEnvelope(envelope).envelope;
    const recordId = uuidText(Buffer.from(isNoId(runId) ? eventId : runId));
    const hangs = kind === 'inference-start' || isNoId(runId);
    return {
      sequence,
      organisation,
      recordId,
      parentId: hangs ? uuidText(Buffer.from(parentId)) : undefined,
    };
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** A range of events that one action erased while holds were active. */
interface ErasedUnderHolds extends SequenceStretch {
  readonly action: string;
  /** The ids of the active holds. */
  readonly holds: readonly string[];
}

/**
 * Events erased while holds were active, in order. If several actions name an event, the first one counts.
 */
export function erasedUnderHolds(actions: Actions): readonly ErasedUnderHolds[] {
  const found: ErasedUnderHolds[] = [];
  const standing = new Set<string>();
  let erased = SequenceSet.EMPTY;
  for (const { said } of actions.logged) {
    if (said.does === 'hold') standing.add(said.action);
    else if (said.does === 'release') standing.delete(said.hold);
    else if (said.does === 'erase') {
      const sequences = eventsOf(said.keys);
      const by = { action: said.action, holds: [...standing] };
      if (standing.size > 0)
        for (const { first, end } of sequences.without(erased)) found.push({ first, end, ...by });
      erased = erased.with(sequences);
    }
  }
  return found.sort((a, b) => a.first - b.first);
}

/** The content of a hold that can be compared with an envelope. */
export interface HeldThings {
  readonly name: string;
  readonly organisations: ReadonlySet<string>;
  /** Ids of runs, including runs nested directly in them. */
  readonly runs: ReadonlySet<string>;
  /** The matching events when it began. */
  readonly events: SequenceSet;
}

/**
 * Reports events that were erased under a hold, or during a hold whose record is missing.
 * @param holds the holds by id, except those whose record is missing or changed.
 * @param events the remaining facts of events erased during holds, in order.
 */
export async function* heldFindings(
  erased: readonly ErasedUnderHolds[],
  holds: ReadonlyMap<string, HeldThings>,
  events: Iterable<ErasedEvent> | AsyncIterable<ErasedEvent>,
): AsyncGenerator<VerifyFinding> {
  let found: { first: number; end: number; action: string; why: string } | undefined;
  const reported = ({ first, end, action, why }: NonNullable<typeof found>) =>
    finding('erased_under_hold', { sequence: first }, first, end - first, action, why);
  let place = 0;
  for await (const event of events) {
    const { sequence } = event;
    while ((erased[place]?.end ?? Infinity) <= sequence) place++;
    const { action = '', holds: standing = [] } = erased[place] ?? {};
    const why = holdOver(event, standing, holds);
    if (found?.end === sequence && found.action === action && found.why === why) {
      found.end++;
      continue;
    }
    if (found !== undefined) yield reported(found);
    found = why === undefined ? undefined : { first: sequence, end: sequence + 1, action, why };
  }
  if (found !== undefined) yield reported(found);
}

function holdOver(
  { organisation, recordId, parentId, sequence }: ErasedEvent,
  standing: readonly string[],
  holds: ReadonlyMap<string, HeldThings>,
): string | undefined {
  for (const { name, organisations, runs, events } of standing.flatMap((id) => holds.get(id) ?? []))
    if (
      organisations.has(organisation) ||
      runs.has(recordId) ||
      (parentId !== undefined && runs.has(parentId)) ||
      events.has(sequence)
    )
      return `the hold ${name} protected it`;
  const unknown = standing.find((id) => !holds.has(id));
  return unknown && `hold ${unknown} was active, and its record is missing or changed`;
}
