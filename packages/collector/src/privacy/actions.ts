/**
 * Actions: entries of the log about stored events. They are leaves like events and are never erased, so they
 * contain nothing personal: no subject, no name of a person, no free text. Pure.
 *
 *   policy       the complete retention policy that applies from here on
 *   hold         a hold begins: its id, and the hash of its record, which is kept beside the log
 *   release      a hold ends
 *   erase        the keys of these events are destroyed; a long erasure has several parts, one entry each
 *   done         no copy of the keys contains them
 *   rotate       an epoch of keys has begun, and no key of an older one remains
 *   quarantine   batches that no collector stored were moved aside, in a database
 *
 * Frozen, version 1 (docs/internals/formats.md): members have a fixed order, so that an action has one text.
 */
import type { TakenKeys } from './payload-keys.js';
import { SequenceSet } from './sequence-set.js';

const FORMAT = 'clinical-events/action/v1';
/** The beginning of the body of every own entry. */
const ENTRY_ID = /^\{"event_id":"([0-9a-f-]{36})",/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** Reasons for an erasure. The list is closed, because free text could name a person. */
export const REASONS = [
  'policy',
  'erasure-request',
  'consent-withdrawn',
  'objection',
  'unlawful-processing',
  'legal-obligation',
  'court-order',
  'tenant-end',
  'test-data',
  'sent-in-error',
] as const;
export type Reason = (typeof REASONS)[number];

/** Reasons that may override the floors of a policy. No reason overrides a hold. */
export const ABOVE_FLOORS: readonly Reason[] = [
  'court-order',
  'unlawful-processing',
  'sent-in-error',
  'test-data',
];

interface Named {
  /** UUID, equal in all entries of an action. */
  readonly action: string;
}

export interface Erase extends Named {
  readonly does: 'erase';
  readonly reason: Reason;
  /** The action that set the policy, and the rule that decided, if one did. */
  readonly policy?: string;
  readonly rule?: string;
  /** SHA-256 of the plan and of its marks, in hexadecimal, for a planned erasure. */
  readonly plan?: string;
  readonly marks?: string;
  /** Salted SHA-256 of the erasure record, which is kept beside the log. */
  readonly record?: string;
  /** Set if floors of the policy were overridden. */
  readonly override?: true;
  /** Set if the plan could not read some payloads. */
  readonly incomplete?: true;
  /** Counted from 1. */
  readonly part: number;
  readonly parts: number;
  readonly keys: readonly TakenKeys[];
}

/** The content of an action. */
export type Action =
  | Erase
  | (Named & { readonly does: 'done' })
  | (Named & { readonly does: 'policy'; readonly policy: unknown })
  /** @param record SHA-256 of the hold's record, in hexadecimal. */
  | (Named & { readonly does: 'hold'; readonly record: string })
  | (Named & { readonly does: 'release'; readonly hold: string })
  | (Named & { readonly does: 'rotate'; readonly epoch: number })
  | (Named & {
      readonly does: 'quarantine';
      readonly batches: number;
      readonly entries: number;
      /** Number of event ids that can be stored again. */
      readonly ids: number;
    });

/** An action in the log. */
export interface LoggedAction {
  readonly sequence: number;
  /** The id of the entry, for proofs. */
  readonly entryId: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly said: Action;
}

/** The members of an action in the order of its text, without the leading `event_id` of an entry. */
export function actionFields(action: Action): object {
  if (action.does !== 'erase') {
    const { action: id, does, ...more } = action;
    return { format: FORMAT, action: id, does, ...more };
  }
  const { reason, part, parts, policy, rule, plan, marks, record, override, incomplete, keys } = action;
  return {
    ...{ format: FORMAT, action: action.action, does: action.does, reason, part, parts },
    ...(policy !== undefined && { policy }),
    ...(rule !== undefined && { rule }),
    ...(plan !== undefined && { plan }),
    ...(marks !== undefined && { marks }),
    ...(record !== undefined && { record }),
    ...(override && { override_floor: true }),
    ...(incomplete && { incomplete }),
    events: eventsOf(keys).size,
    keys: keys.map(({ tag, organisation, sequences, places }) => ({
      ...{ bucket: tag.toString(16).padStart(8, '0'), organisation, sequences: sequences.toText() },
      ...(places && { places: places.toText() }),
    })),
  };
}

export function eventsOf(keys: readonly TakenKeys[]): SequenceSet {
  return SequenceSet.union(keys.map(({ sequences }) => sequences));
}

/**
 * Parses an action.
 * @param body the body of an entry, or a note, which has no `event_id` and may end with a line feed.
 * @returns undefined if the body is not exactly the text of an action of this version.
 */
export function actionIn(body: Buffer): Action | undefined {
  const text = body.toString();
  const entryId = ENTRY_ID.exec(text)?.[0];
  let said: Action | undefined;
  try {
    said = actionFrom(Object(JSON.parse(text)) as Record<string, unknown>);
  } catch {
    return undefined;
  }
  if (said === undefined) return undefined;
  const own = JSON.stringify(actionFields(said));
  const texts = entryId === undefined ? [own, `${own}\n`] : [entryId + own.slice(1)];
  return texts.some((each) => body.equals(Buffer.from(each))) ? said : undefined;
}

/** Reads an action from parsed JSON, with members in any order; undefined if it is not an action. */
export function actionFrom(read: Readonly<Record<string, unknown>>): Action | undefined {
  const { format, action, does, reason, policy, rule, part, parts, record, hold, epoch } = read;
  if (format !== FORMAT || !isId(action)) return undefined;
  switch (does) {
    case 'done':
      return { action, does };
    case 'policy':
      return Object(policy) === policy ? { action, does, policy } : undefined;
    case 'hold':
      return isSha256(record) ? { action, does, record } : undefined;
    case 'release':
      return isId(hold) ? { action, does, hold } : undefined;
    case 'rotate':
      return isCount(epoch) ? { action, does, epoch } : undefined;
    case 'quarantine': {
      const [batches, entries, ids] = ['batches', 'entries', 'ids'].map((name) => Number(read[name]));
      const isWhole = [batches, entries, ids].every((n) => Number.isSafeInteger(n) && Number(n) >= 0);
      return isWhole
        ? { action, does, batches: batches ?? 0, entries: entries ?? 0, ids: ids ?? 0 }
        : undefined;
    }
    case 'erase': {
      const known = REASONS.find((each) => each === reason);
      const keys = keysFrom(read['keys']);
      const planned = plannedFrom(read);
      if (known === undefined || keys === undefined || planned === undefined) return undefined;
      if (!isCount(part) || !isCount(parts)) return undefined;
      return {
        ...{ action, does, reason: known, part, parts, keys },
        ...(isId(policy) && { policy }),
        ...(typeof rule === 'string' && { rule }),
        ...planned,
      };
    }
    default:
      return undefined;
  }
}

type Planned = Pick<Erase, 'plan' | 'marks' | 'record' | 'override' | 'incomplete'>;

/** The members of a planned erasure; undefined if one of them has a wrong type. */
function plannedFrom(read: Readonly<Record<string, unknown>>): Planned | undefined {
  const planned: Record<string, string | true> = {};
  for (const name of ['plan', 'marks', 'record'] satisfies (keyof Planned)[]) {
    const value = read[name];
    if (isSha256(value)) planned[name] = value;
    else if (value !== undefined) return undefined;
  }
  const flags = { override: read['override_floor'], incomplete: read['incomplete'] };
  for (const [name, value] of Object.entries(flags)) {
    if (value === true) planned[name] = true;
    else if (value !== undefined) return undefined;
  }
  return planned;
}

function keysFrom(read: unknown): TakenKeys[] | undefined {
  if (!Array.isArray(read)) return undefined;
  const keys: TakenKeys[] = [];
  for (const each of read as unknown[]) {
    const { bucket, organisation, sequences: set, places } = Object(each) as Record<string, unknown>;
    const sequences = setFrom(set);
    const counted = setFrom(places);
    if (typeof bucket !== 'string' || !/^[0-9a-f]{8}$/.test(bucket)) return undefined;
    if (typeof organisation !== 'string' || sequences === undefined) return undefined;
    if (places !== undefined && counted?.size !== sequences.size) return undefined;
    const tag = Number.parseInt(bucket, 16);
    keys.push({ tag, organisation, sequences, ...(counted && { places: counted }) });
  }
  return keys;
}

function setFrom(text: unknown): SequenceSet | undefined {
  return typeof text === 'string' ? SequenceSet.fromText(text) : undefined;
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && UUID.test(value);
}

function isSha256(value: unknown): value is string {
  return typeof value === 'string' && SHA256.test(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0;
}

/** Maximum bytes of sets in a part, which makes its entry about as large as the largest event. */
const PART_BYTES = 128 << 10;

/** Divides an erasure into parts. `keys` has one element per bucket and organisation. */
export function partsOf(erase: Omit<Erase, 'part' | 'parts'>): Erase[] {
  const groups: TakenKeys[][] = [[]];
  let bytes = 0;
  for (const each of erase.keys) {
    const size = each.sequences.toText().length + (each.places?.toText().length ?? 0);
    if (bytes > 0 && bytes + size > PART_BYTES) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)?.push(each);
    bytes += size;
  }
  return groups.map((keys, i) => ({ ...erase, keys, part: i + 1, parts: groups.length }));
}

/**
 * The keys destroyed by the actions that are noted beside the keys, whether or not the log has these actions.
 */
export function takenBy(noted: readonly Buffer[]): TakenKeys[] {
  return noted.flatMap((note) => {
    const said = actionIn(note);
    return said?.does === 'erase' ? said.keys : [];
  });
}

/** The erasure of an event. */
export interface Erasure {
  readonly action: string;
  readonly reason: Reason;
  /** Time, in ms since 1970. */
  readonly at: number;
}

/** The actions of a log, in order. */
export class Actions {
  readonly logged: LoggedAction[] = [];
  #erased = SequenceSet.EMPTY;
  /** Sets to add to `#erased` on its next use, because a union copies the whole set. */
  readonly #toUnite: SequenceSet[] = [];
  /** The erasures in order; for each event the first one counts. */
  readonly #erasures: { readonly sequences: SequenceSet; readonly erasure: Erasure }[] = [];
  /** For a log in a database: places of destroyed keys by tag and organisation. */
  readonly #places = new Map<string, SequenceSet>();

  /** Adds the action in an entry. @returns false if the body is not an action of this version. */
  add(sequence: number, at: number, body: Buffer): boolean {
    const said = actionIn(body);
    if (said === undefined) return false;
    const entryId = ENTRY_ID.exec(body.toString('latin1', 0, 64))?.[1] ?? '';
    this.logged.push({ sequence, entryId, at, said });
    if (said.does === 'erase') {
      const sequences = eventsOf(said.keys);
      const { action, reason } = said;
      this.#erasures.push({ sequences, erasure: { action, reason, at } });
      this.#toUnite.push(sequences);
      for (const { tag, organisation, places } of said.keys) {
        if (places === undefined) continue;
        const name = `${tag} ${organisation}`;
        this.#places.set(name, (this.#places.get(name) ?? SequenceSet.EMPTY).with(places));
      }
    }
    return true;
  }

  /** All events named by an erasure. */
  get erased(): SequenceSet {
    if (this.#toUnite.length > 0)
      this.#erased = SequenceSet.union([this.#erased, ...this.#toUnite.splice(0)]);
    return this.#erased;
  }

  /** For a log in a database: whether an erasure names the key of a place. */
  isTaken(tag: number, organisation: string, place: number): boolean {
    return this.#places.get(`${tag} ${organisation}`)?.has(place) === true;
  }

  /** The erasure of an event; undefined if it was not erased. */
  erasureOf(sequence: number): Erasure | undefined {
    if (!this.erased.has(sequence)) return undefined;
    return this.#erasures.find(({ sequences }) => sequences.has(sequence))?.erasure;
  }

  /** The parts of an action that are in the log. */
  partsIn(action: string): Erase[] {
    return this.#said('erase').filter((said) => said.action === action);
  }

  /** Whether all parts of an action are in the log. */
  isWhole(action: string): boolean {
    const parts = this.partsIn(action);
    return parts.length >= (parts[0]?.parts ?? 0);
  }

  /** Time at which an action was done, in ms since 1970; undefined if it is not done. */
  doneAt(action: string): number | undefined {
    return this.logged.find(({ said }) => said.does === 'done' && said.action === action)?.at;
  }

  /** The keys named by all erasures, or by those that are not done. */
  taken(which: 'all' | 'undone'): TakenKeys[] {
    const erasures = this.#said('erase');
    const done = new Set(this.#said('done').map(({ action }) => action));
    return erasures.flatMap(({ action, keys }) => (which === 'undone' && done.has(action) ? [] : keys));
  }

  /** Erasures that are not done, oldest first. */
  undone(): string[] {
    const done = new Set(this.#said('done').map(({ action }) => action));
    const ids = this.#said('erase').map(({ action }) => action);
    return [...new Set(ids)].filter((action) => !done.has(action));
  }

  /** The current policy; undefined if none was set. */
  get policy(): { readonly action: string; readonly policy: unknown } | undefined {
    return this.#said('policy').at(-1);
  }

  /** The active holds: their ids, and the hashes of their records. */
  get holds(): ReadonlyMap<string, string> {
    const over = new Set(this.#said('release').map(({ hold }) => hold));
    const begun = this.#said('hold').filter(({ action }) => !over.has(action));
    return new Map(begun.map(({ action, record }) => [action, record]));
  }

  #said<Does extends Action['does']>(does: Does): Extract<Action, { does: Does }>[] {
    return this.logged.flatMap(({ said }) =>
      said.does === does ? [said as Extract<Action, { does: Does }>] : [],
    );
  }
}
