/**
 * One pass over a range of the log, in a thread or on the calling one: finds what a request is about, or
 * collects the events of runs. It reads the log and not the catalogue, where a single altered row would hide
 * a run.
 */
import type { EventKind } from '@clinical-events/protocol';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { type EventLog, ID_BYTES, type PassedEntry } from '../../store/contract/events.js';
import { isNoId, latin1, uuidText } from '../../store/text.js';
import { Mentions } from './mentions.js';

/** The bytes of an id, one per character: a compact map key. */
export type Id = string;
/** Ids by organisation, because they are unique only within one. */
export type ByOrganisation<Value> = Map<string, Map<Id, Value>>;

export interface Range {
  readonly from: number;
  readonly through: number;
}

/** Search criteria. */
export interface Sought {
  readonly subjects: readonly string[];
  /** Hexadecimal prefixes of run ids. */
  readonly runs: readonly string[];
  readonly events: readonly Id[];
  /** Whether to search every payload for the subjects, and not only starts. */
  readonly mentions: boolean;
  readonly organisation?: string | undefined;
  /** Events (SequenceSet.toText) whose records are requested. */
  readonly erased: string;
}

/** An event as in its envelope. */
export interface LogEvent {
  readonly sequence: number;
  readonly at: number;
  readonly size: number;
  readonly kind: EventKind;
  readonly organisation: string;
  readonly receivedAt: number;
  readonly id: Id;
  /** Undefined if the event neither names nor opens a run. */
  readonly runId: Id | undefined;
  /** The event it is attached to; the envelope keeps it when the payload is erased. */
  readonly parent: Id | undefined;
}

/** The facts in a start. */
export interface StartFacts {
  readonly sequence: number;
  /** `unread`: the payload cannot be decrypted, although no action erased it. */
  readonly state: 'read' | 'erased' | 'unread';
  readonly target?: string;
  readonly caller?: string;
  readonly parent: Id | undefined;
}

export type Job = ({ readonly find: Sought } & Range) | ({ readonly collect: Wanted } & Range);

export interface Wanted {
  readonly runs: ByOrganisation<true>;
  /** Events whose dependents are wanted too: events without a run, and starts of nested runs. */
  readonly on: ByOrganisation<true>;
}

export interface Found {
  /** All organisations with events. */
  readonly organisations: ReadonlySet<string>;
  readonly runs: ByOrganisation<true>;
  /** Events without a run, if their ids match `Sought.runs`. */
  readonly runless: ByOrganisation<true>;
  readonly events: readonly (LogEvent & { readonly isMention: boolean })[];
  /** The runs, and the events without a run, that `Sought.erased` requests. */
  readonly erased: { readonly runs: ByOrganisation<true>; readonly runless: ByOrganisation<true> };
  /** Number of payloads that were needed but could not be decrypted. */
  readonly unread: number;
}

export type CollectedEvent = LogEvent & { readonly start?: StartFacts };

export function put<Value>(map: ByOrganisation<Value>, organisation: string, id: Id, value: Value): void {
  let ids = map.get(organisation);
  if (ids === undefined) map.set(organisation, (ids = new Map<Id, Value>()));
  ids.set(id, value);
}

export type Answer = Found | readonly CollectedEvent[];

type Log = Pick<EventLog, 'pass' | 'actions'>;

/** @param onBytes called with the size of each batch. @throws StoreDamaged; the reason of the signal. */
export async function pass(
  log: Log,
  job: Job,
  onBytes: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<Answer> {
  const erased = log.actions?.().erased ?? SequenceSet.EMPTY;
  const work = 'find' in job ? new Finding(job.find, erased) : new Collecting(job.collect, erased);
  for await (const batch of log.pass({ sequence: job.from, at: 0 }, { through: job.through })) {
    signal?.throwIfAborted();
    let bytes = 0;
    for (const entry of batch) {
      bytes += entry.size;
      if (!entry.isOwn) work.take(entry);
    }
    onBytes(bytes);
  }
  return work.answer();
}

class Finding {
  readonly #organisations = new Set<string>();
  #organisation = '';
  readonly #runs: ByOrganisation<true> = new Map();
  readonly #runless: ByOrganisation<true> = new Map();
  readonly #events: (LogEvent & { isMention: boolean })[] = [];
  readonly #ofErased: Found['erased'] = { runs: new Map(), runless: new Map() };
  readonly #subjects: ReadonlySet<string>;
  readonly #eventIds: ReadonlySet<Id>;
  readonly #inErased: SequenceSet;
  readonly #likely: readonly Buffer[];
  readonly #mentions: Mentions | undefined;
  #unread = 0;

  constructor(
    private readonly sought: Sought,
    private readonly erased: SequenceSet,
  ) {
    const { subjects, mentions, events } = sought;
    this.#subjects = new Set(subjects);
    this.#eventIds = new Set(events);
    this.#inErased = SequenceSet.fromText(sought.erased) ?? SequenceSet.EMPTY;
    this.#likely = likely(subjects);
    this.#mentions = mentions ? new Mentions(subjects) : undefined;
  }

  take(entry: PassedEntry): void {
    const { organisation, source, eventIdAt, runIdAt, kind } = entry;
    const { sought } = this;
    if (organisation !== this.#organisation) this.#organisations.add((this.#organisation = organisation));
    if (sought.organisation !== undefined && sought.organisation !== organisation) return;
    const isStart = kind === 'inference-start';
    const isRunless = isNoId(source, runIdAt);
    if (this.#eventIds.size > 0 && this.#eventIds.has(idAt(source, eventIdAt)))
      this.#events.push({ ...eventOf(entry), isMention: false });
    if (sought.runs.length > 0) {
      const at = isRunless ? eventIdAt : runIdAt;
      const digits = source.toString('hex', at, at + ID_BYTES);
      if (sought.runs.some((beginning) => digits.startsWith(beginning)))
        put(isRunless ? this.#runless : this.#runs, organisation, idAt(source, at), true);
    }
    if (this.#inErased.has(entry.sequence)) {
      const { runs, runless } = this.#ofErased;
      const at = isRunless ? eventIdAt : runIdAt;
      put(isRunless ? runless : runs, organisation, idAt(source, at), true);
    }
    if (this.#subjects.size === 0 || !(isStart || this.#mentions !== undefined)) return;
    const body = entry.body();
    if (body === undefined) {
      if (!this.erased.has(entry.sequence)) this.#unread++;
      return;
    }
    if (isStart && this.#isAbout(body)) put(this.#runs, organisation, idAt(source, runIdAt), true);
    else if (this.#mentions?.areIn(body)) this.#events.push({ ...eventOf(entry), isMention: true });
  }

  answer(): Found {
    return {
      ...{ organisations: this.#organisations, runs: this.#runs, runless: this.#runless },
      ...{ events: this.#events, erased: this.#ofErased, unread: this.#unread },
    };
  }

  #isAbout(body: Buffer): boolean {
    if (this.#likely.length > 0 && !this.#likely.some((each) => body.includes(each))) return false;
    const { target, caller } = personsIn(body);
    return [target, caller].some((id) => id !== undefined && this.#subjects.has(id));
  }
}

class Collecting {
  readonly #events: CollectedEvent[] = [];

  constructor(
    private readonly wanted: Wanted,
    private readonly erased: SequenceSet,
  ) {}

  take(entry: PassedEntry): void {
    const { organisation, source, eventIdAt, runIdAt } = entry;
    const { runs, on } = this.wanted;
    const isOfRun = runs.get(organisation)?.has(idAt(source, runIdAt)) === true;
    if (!isOfRun && !this.#hangs(entry)) return;
    // Events attached to an event without a run belong to the same record.
    if (isNoId(source, runIdAt)) put(on, organisation, idAt(source, eventIdAt), true);
    const event = eventOf(entry);
    const isStart = event.kind === 'inference-start';
    this.#events.push({ ...event, ...(isStart && { start: startOf(entry, event, this.erased) }) });
  }

  #hangs({ organisation, source, parentIdAt, runIdAt, kind }: PassedEntry): boolean {
    if (kind !== 'inference-start' && !isNoId(source, runIdAt)) return false;
    return this.wanted.on.get(organisation)?.has(idAt(source, parentIdAt)) === true;
  }

  answer(): readonly CollectedEvent[] {
    return this.#events;
  }
}

export function eventOf(entry: PassedEntry): LogEvent {
  const { sequence, at, size, kind, organisation, receivedAt, source, eventIdAt, runIdAt, parentIdAt } =
    entry;
  return {
    ...{ sequence, at, size, kind, organisation, receivedAt, id: idAt(source, eventIdAt) },
    runId: isNoId(source, runIdAt) ? undefined : idAt(source, runIdAt),
    parent: isNoId(source, parentIdAt) ? undefined : idAt(source, parentIdAt),
  };
}

function idAt(source: Buffer, at: number): Id {
  return latin1(source, at, at + ID_BYTES);
}

function startOf(entry: PassedEntry, { sequence, parent }: LogEvent, erased: SequenceSet): StartFacts {
  const body = entry.body();
  if (body === undefined) return { sequence, state: erased.has(sequence) ? 'erased' : 'unread', parent };
  return { sequence, state: 'read', parent, ...personsIn(body) };
}

/** @param body of a stored start, hence valid JSON. */
function personsIn(body: Buffer): { readonly target?: string; readonly caller?: string } {
  const { target_identity, user_identity } = Object(JSON.parse(body.toString())) as Record<string, unknown>;
  const target = idIn(Object(target_identity) as Record<string, unknown>, 'target_id');
  const caller = idIn(Object(user_identity) as Record<string, unknown>, 'caller_id');
  return { ...(target !== undefined && { target }), ...(caller !== undefined && { caller }) };
}

function idIn(identity: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const id = identity[name];
  return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined;
}

/** Above this number of ids, parsing a start is faster than searching for them. */
const MOST_SEARCHED = 16;

/**
 * A start about one of the ids contains one of these: the id as JSON.stringify writes it, or an escape (RFC
 * 8259, 7).
 */
function likely(ids: readonly string[]): Buffer[] {
  if (ids.length > MOST_SEARCHED) return [];
  const escapes = ['\\u', ...(ids.some((id) => id.includes('/')) ? ['\\/'] : [])];
  const texts = ids.map((id) => JSON.stringify(id).slice(1, -1));
  return [...texts, ...escapes].map((each) => Buffer.from(each));
}

export function idOf(text: string): Id {
  return Buffer.from(text.replaceAll('-', ''), 'hex').toString('latin1');
}

export function textOf(id: Id): string {
  return uuidText(Buffer.from(id, 'latin1'));
}
