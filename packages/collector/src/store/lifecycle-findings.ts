/** In words, what the keys of a log say against the actions in it: for `collector verify`. */
import { decodeEnvelope } from '@clinical-events/protocol';
import { type Actions, eventsOf, type Reason, takenBy } from '../privacy/actions.js';
import type { StoredKeys, TakenKeys } from '../privacy/key-directory.js';
import type { ErasedEvent } from '../privacy/lawfulness.js';
import { SequenceSet } from '../privacy/sequence-set.js';
import { counted } from '../quantity.js';
import { type AuditedLog, eventRange, type FindingList } from './log-audit.js';
import { isNoId, uuidText } from './text.js';

/** Of a kind so many are listed, and the rest is counted. */
const MOST = 10_000;

export interface KeysFound {
  readonly actions: Actions;
  /** Events whose key is not to be had, or whose payload was taken out. */
  readonly keyless: SequenceSet;
  /** Events that could not be read. */
  readonly unread: SequenceSet;
  /** By which it is judged; undefined where there are none. */
  readonly keys: Pick<StoredKeys, 'noted'> | undefined;
  /** What actions behind the end of the log, as it was read, have erased. */
  readonly later: SequenceSet;
  /** Of `shouldBeGone` what opened when it was read once more. */
  readonly back: SequenceSet;
}

/**
 * Events that opened, and an action says that they do not any more. It may have come after they were read: they are to be
 * read once more.
 */
export function shouldBeGone({
  actions,
  keyless,
  unread,
  keys,
}: Omit<KeysFound, 'later' | 'back'>): SequenceSet {
  if (keys === undefined) return SequenceSet.EMPTY;
  const pending = eventsOf(actions.taken('undone'));
  return actions.retired.without(pending).without(keyless).without(unread);
}

/** Events without a key that an erasure explains which the log does not have. Numbers are given again, and keys are not. */
export class ErasedElsewhere {
  readonly #byKey: ReadonlyMap<string, readonly TakenKeys[]>;
  /** Of a log in a database: its mirrors have keys of their own, and its numbers. */
  readonly #shared: readonly TakenKeys[];
  readonly #found: number[] = [];
  /** Whose payload was taken out, and with it the name of its key. */
  readonly #nameless: number[] = [];

  constructor(private readonly keys: readonly TakenKeys[]) {
    this.#byKey = Map.groupBy(keys, ({ tag, organisation }) => `${tag} ${organisation}`);
    this.#shared = keys.filter(({ places }) => places !== undefined);
  }

  /** @param key which is missing; undefined where nobody can say which it was. */
  meet(sequence: number, key: { tag: number; organisation: string; place?: number } | undefined): void {
    if (key === undefined) {
      if (this.keys.length > 0) this.#nameless.push(sequence);
      return;
    }
    const { tag, organisation, place } = key;
    const isFound =
      place === undefined && this.#shared.length > 0
        ? this.#shared.some((each) => each.organisation === organisation && each.sequences.has(sequence))
        : this.#byKey
            .get(`${tag} ${organisation}`)
            ?.some(({ sequences, places = sequences }) => places.has(place ?? sequence));
    if (isFound) this.#found.push(sequence);
  }

  /** Of the events that were met. */
  get explained(): SequenceSet {
    return SequenceSet.of(this.#found).with(SequenceSet.of(this.#nameless).within(eventsOf(this.keys)));
  }
}

/**
 * Tells events that have no key though no action has taken it, and those whose keys are there though one has. Where there
 * are no keys at all neither can be told. What lies beside the keys is signed by nobody, and explains nothing.
 */
export function tellLifecycle(
  { actions, keyless, keys, later, back }: Omit<KeysFound, 'unread'>,
  findings: FindingList,
): Pick<AuditedLog, 'retired' | 'retiring' | 'quarantined'> {
  const { retired } = actions;
  const pending = eventsOf(actions.taken('undone'));
  const add = (kind: 'unexplained' | 'not_retired', sequences: SequenceSet, what: string) => {
    for (const [i, { first, end }] of [...sequences].entries()) {
      const message = `${eventRange(first, end - first)} ${what}`;
      if (i < MOST) findings.add({ kind, sequence: first, message });
      else findings.unlisted++;
    }
  };
  const explained = keyless.without(retired).within(later);
  if (explained.size > 0) {
    const message = `${counted(explained.size, 'event')} cannot be opened: an action behind the end of this state of the log has destroyed their keys`;
    findings.add({ kind: 'note', message });
  }
  const unexplained = keyless.without(retired).without(later);
  const noted = unexplained.size > 0 ? eventsOf(takenBy(keys?.noted() ?? [])) : SequenceSet.EMPTY;
  const why = 'cannot be opened: the key is missing, and no action in the log has destroyed it';
  add('unexplained', unexplained.without(noted), why);
  add(
    'unexplained',
    unexplained.within(noted),
    `${why}; one lies beside the keys, which proves nothing. If this log was restored, start the collector, which takes ` +
      'it into the log',
  );
  add(
    'not_retired',
    back,
    'can be opened, and an action in the log says that no key is left: the keys are of an older state, and the next ' +
      'start destroys them',
  );
  const moved = actions.logged.flatMap(({ said }) => (said.does === 'quarantine' ? [said] : []));
  const quarantined = moved.reduce((sum, { batches }) => sum + batches, 0);
  if (moved.length > 0) {
    const ids = moved.reduce((sum, each) => sum + each.ids, 0);
    const what = `${counted(quarantined, 'batch', 'batches')} and ${counted(ids, 'id')}`;
    findings.add({ kind: 'note', message: `${what} are quarantined: no collector has stored them` });
  }
  const reasons = new Map<Reason, number>();
  let told = SequenceSet.EMPTY;
  for (const { said } of actions.logged) {
    if (said.does !== 'retire') continue;
    const own = eventsOf(said.keys).without(told);
    told = told.with(own);
    reasons.set(said.reason, (reasons.get(said.reason) ?? 0) + own.size);
  }
  return { retired: Object.fromEntries(reasons), retiring: pending.size, quarantined };
}

/** What an envelope says of an event that was erased; undefined when it cannot be read. */
export function erasedEvent(sequence: number, envelope: Buffer): ErasedEvent | undefined {
  try {
    const { organisation, kind, receivedAt, runId, eventId } = decodeEnvelope(envelope).envelope;
    const recordId = uuidText(Buffer.from(isNoId(runId) ? eventId : runId));
    return { sequence, organisation, kind: String(kind), receivedAt, recordId };
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
