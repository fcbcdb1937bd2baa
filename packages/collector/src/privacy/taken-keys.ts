/** The keys that an action destroys, by events and by places of buckets. Pure. */
import { bucketIn } from './key-record.js';
import type { KeyState } from './key-state.js';
import { TREE_PLACES } from './key-tree.js';
import type { RecordName } from './key-vault.js';
import { SequenceSet } from './sequence-set.js';

/** Places of a bucket; about the entries of a segment of the default size. */
export const BUCKET_PLACES = 65_536;
/** Places of a tree that no event uses. */
const BEYOND = SequenceSet.ofStretches([{ first: BUCKET_PLACES, end: TREE_PLACES }]);

/** Keys to destroy: sequences of events of an organisation, with the tag of their bucket. */
export interface TakenKeys {
  readonly tag: number;
  readonly organisation: string;
  readonly sequences: SequenceSet;
  /** For a log in a database: the places of the keys, if they differ from the sequences. */
  readonly places?: SequenceSet;
}

/** Translates keys of a log in a database to the buckets of a mirror, which are addressed by sequence. */
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

/** The places of a bucket whose keys are destroyed, by organisation. */
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
