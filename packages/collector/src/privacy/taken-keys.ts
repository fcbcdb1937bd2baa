/** Whose keys an action destroys, and which places of which buckets these are. Pure. */
import { bucketIn } from './key-record.js';
import type { KeyState } from './key-state.js';
import { TREE_PLACES } from './key-tree.js';
import type { RecordName } from './key-vault.js';
import { SequenceSet } from './sequence-set.js';

/** As many as a segment of the usual size holds. */
export const BUCKET_PLACES = 65_536;
/** No event has these places of a bucket. */
const BEYOND = SequenceSet.ofStretches([{ first: BUCKET_PLACES, end: TREE_PLACES }]);

/** Whose keys are to be destroyed: sequences of events of an organisation, by the tag of their bucket. */
export interface TakenKeys {
  readonly tag: number;
  readonly organisation: string;
  readonly sequences: SequenceSet;
  /** Of a log in a database: what keys were asked for by, where it is not the sequences. */
  readonly places?: SequenceSet;
}

/** An action of a log in a database names buckets of that; on a mirror each event is in one of the mirror's, by its sequence. */
export function bySequences(taken: readonly TakenKeys[], buckets: Iterable<RecordName>): TakenKeys[] {
  const stretches = [...buckets].map(bucketIn);
  return taken.flatMap(({ places, ...keys }) => {
    if (places === undefined) return [keys];
    return stretches.flatMap(({ tag, firstSequence: first }) => {
      const end = first + BUCKET_PLACES;
      if (!keys.sequences.meets(first, end)) return [];
      const sequences = keys.sequences.within(SequenceSet.ofStretches([{ first, end }]));
      return [{ tag, organisation: keys.organisation, sequences }];
    });
  });
}

/** The places of a bucket whose keys are taken, by organisation. */
export function placesIn(
  { firstSequence }: KeyState,
  taken: readonly TakenKeys[],
): ReadonlyMap<string, SequenceSet> {
  const places = new Map<string, SequenceSet>();
  for (const [organisation, own] of Map.groupBy(taken, (each) => each.organisation)) {
    const gone = SequenceSet.union(own.map((each) => each.places ?? each.sequences));
    const shifted = [...gone].map(({ first, end }) => ({
      first: Math.max(0, first - firstSequence),
      end: Math.max(0, end - firstSequence),
    }));
    places.set(organisation, SequenceSet.ofStretches(shifted).with(BEYOND));
  }
  return places;
}
