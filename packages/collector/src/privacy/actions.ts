/**
 * Actions: entries of the log that say what is done to stored events, and what may be done. They are leaves like events,
 * are never erased, and so hold nothing personal: no subject, no name of a person, no free text. Pure.
 *
 *   policy       the retention policy that holds from here on, whole
 *   hold         a hold begins: its id, and the hash of its record, which is kept beside the log
 *   release      a hold ends
 *   erase        the keys of these events are destroyed, from this entry on. A long one has several parts, an entry each
 *   done         no copy of the keys has them any more
 *   rotate       another epoch of keys has begun, and no key of an older one is left
 *   quarantine   what no collector has stored was moved out of the way of a log in a database
 *
 * Frozen, version 1 (docs/internals/formats.md): members stand in one order, so that an action has one text.
 */
import type { TakenKeys } from './payload-keys.js';
import { SequenceSet } from './sequence-set.js';

const FORMAT = 'clinical-events/action/v1';
/** Every body of the log's own begins with it. */
const ENTRY_ID = /^\{"event_id":"([0-9a-f-]{36})",/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** Why events are erased. Closed: free text could name a person. */
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

/** Reasons to which the floors of a policy may yield. Holds yield to none. */
export const ABOVE_FLOORS: readonly Reason[] = [
  'court-order',
  'unlawful-processing',
  'sent-in-error',
  'test-data',
];

interface Named {
  /** A UUID, the same in all entries of an action. */
  readonly action: string;
}

export interface Erase extends Named {
  readonly does: 'erase';
  readonly reason: Reason;
  /** The action that set the policy in force, and its rule, where one decided. */
  readonly policy?: string;
  readonly rule?: string;
  /** SHA-256 of the plan and of the marks that were set in it, in hexadecimal; of an erasure that was planned. */
  readonly plan?: string;
  readonly marks?: string;
  /** Salted SHA-256 of the erasure record, which is kept beside the log. */
  readonly record?: string;
  /** The floors of the policy were overridden. */
  readonly override?: true;
  /** There were payloads that the plan could not read. */
  readonly incomplete?: true;
  /** Counted from 1. */
  readonly part: number;
  readonly parts: number;
  readonly keys: readonly TakenKeys[];
}

/** What an action says. */
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
      /** Of events, which can be stored again. */
      readonly ids: number;
    });

/** As the log has it. */
export interface LoggedAction {
  readonly sequence: number;
  /** The id of the entry, by which it is proved. */
  readonly entryId: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly said: Action;
}

/** Members in the order of its text. In an entry of the log, `event_id` stands before them. */
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
 * @param body of an entry of the log; or of a note, which has no `event_id` and may end with a line feed.
 * @returns undefined for anything but the text of an action of this version.
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

/** Of parsed JSON, in any order and with other members between; undefined for anything but an action. */
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

/** Undefined where one of these members is not of its type. */
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

/** Bytes of sets in a part, so that its entry is about as large as an event may be. */
const PART_BYTES = 128 << 10;

/** Divides an erasure into parts. Its `keys` has one element for each bucket and organisation. */
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

/** The keys that actions noted beside them say are destroyed, whether the log has these actions or not. */
export function takenBy(noted: readonly Buffer[]): TakenKeys[] {
  return noted.flatMap((note) => {
    const said = actionIn(note);
    return said?.does === 'erase' ? said.keys : [];
  });
}

/** By what an event was erased. */
export interface Erasure {
  readonly action: string;
  readonly reason: Reason;
  /** When, in ms since 1970. */
  readonly at: number;
}

/** The actions of a log, in its order. */
export class Actions {
  readonly logged: LoggedAction[] = [];
  #erased = SequenceSet.EMPTY;
  /** What is not in it yet: united when asked for, since each union costs all that is there. */
  readonly #toUnite: SequenceSet[] = [];
  /** Of each event the first counts. */
  readonly #erasures: { readonly sequences: SequenceSet; readonly erasure: Erasure }[] = [];
  /** Of a log in a database: by tag and organisation the places whose keys were to be destroyed. */
  readonly #places = new Map<string, SequenceSet>();

  /** @returns whether the body is an action that is known here. */
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

  /** All events whose keys were to be destroyed. */
  get erased(): SequenceSet {
    if (this.#toUnite.length > 0)
      this.#erased = SequenceSet.union([this.#erased, ...this.#toUnite.splice(0)]);
    return this.#erased;
  }

  /** Whether the key of a place was to be destroyed, of a log in a database. */
  isTaken(tag: number, organisation: string, place: number): boolean {
    return this.#places.get(`${tag} ${organisation}`)?.has(place) === true;
  }

  /** By what an event was erased; undefined when it was not. */
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

  /** When an action was done, in ms since 1970; undefined when it is not. */
  doneAt(action: string): number | undefined {
    return this.logged.find(({ said }) => said.does === 'done' && said.action === action)?.at;
  }

  /** The keys that are to be destroyed by actions that are not done, or by all. */
  taken(which: 'all' | 'undone'): TakenKeys[] {
    const erasures = this.#said('erase');
    const done = new Set(this.#said('done').map(({ action }) => action));
    return erasures.flatMap(({ action, keys }) => (which === 'undone' && done.has(action) ? [] : keys));
  }

  /** Actions whose keys may still be somewhere, oldest first. */
  undone(): string[] {
    const done = new Set(this.#said('done').map(({ action }) => action));
    const ids = this.#said('erase').map(({ action }) => action);
    return [...new Set(ids)].filter((action) => !done.has(action));
  }

  /** The policy that holds; undefined while none was set. */
  get policy(): { readonly action: string; readonly policy: unknown } | undefined {
    return this.#said('policy').at(-1);
  }

  /** The holds that are not over, by their ids, and what binds their records. */
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
