/** Which events an erasure is about: those of runs, of a subject, or by their ids; and what speaks against it. */
import type { EventKind } from '@clinical-events/protocol';
import type { Catalogue, CatalogueRun } from '../../catalogue/catalogue.js';
import type { TakenKeys } from '../../privacy/key-directory.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import type { EventLog } from '../../store/contract/events.js';
import { isNoId, uuidBytes, uuidText } from '../../store/text.js';
import { recordMeant } from '../arguments.js';

/** An event that is to be retired, and what rules ask of it. */
export interface SelectedEvent {
  readonly at: number;
  readonly size: number;
  readonly sequence: number;
  readonly kind: EventKind;
  readonly organisation: string;
  readonly receivedAt: number;
  /** The record that it is of, where that is known. */
  readonly run: CatalogueRun | undefined;
}

/** What was asked for. */
export interface Asked {
  /** Ids of a person, a document, a claim: as senders write them in target_identity. */
  readonly subjects: readonly string[];
  readonly runs: readonly string[];
  readonly events: readonly string[];
  /** Events whose runs are meant: those that an erasure took. */
  readonly ofRuns: SequenceSet;
}

export interface Selection {
  readonly runs: readonly CatalogueRun[];
  readonly events: readonly SelectedEvent[];
  /** Runs nested in those, which are about someone else or say of nobody. */
  readonly nestedOfOthers: readonly string[];
  /** Of the subjects those without a run, by their number among them from 1 on; and the ids that no event has. */
  readonly unknown: { readonly subjects: readonly number[]; readonly events: readonly string[] };
}

/** @throws CommandFailure for a run that is not there. */
export async function select(
  catalogue: Catalogue,
  log: EventLog,
  { subjects, runs, events, ofRuns }: Asked,
  dataDir: string,
): Promise<Selection> {
  const found = new Map<number, CatalogueRun>();
  const unknownSubjects: number[] = [];
  for (const [i, target] of subjects.entries()) {
    const before = found.size;
    for (const run of catalogue.runs({ target })) found.set(run.row, run);
    if (found.size === before) unknownSubjects.push(i + 1);
  }
  for (const text of runs) {
    const id = recordMeant(catalogue, { option: '--run', text }, dataDir);
    for (const run of catalogue.run(undefined, id)) found.set(run.row, run);
  }
  // Erased events tell no subject any more, so that who it was is not asked.
  if (ofRuns.size > 0)
    for (const run of catalogue.runs({ order: 'log' }))
      if (ofRuns.meets(run.firstSequence, run.lastSequence + 1))
        if (run.events().some(({ sequence }) => ofRuns.has(sequence))) found.set(run.row, run);
  const nestedOfOthers = addNested(catalogue, found);
  const selected = new Map<number, SelectedEvent>();
  for (const run of found.values())
    for (const { at, size, sequence, kind, receivedAt } of run.events())
      selected.set(sequence, { at, size, sequence, kind, receivedAt, organisation: run.organisation, run });
  const unknownEvents: string[] = [];
  for (const eventId of events) {
    const ofId = await eventsOfId(catalogue, log, eventId);
    if (ofId.length === 0) unknownEvents.push(eventId);
    for (const event of ofId) if (!selected.has(event.sequence)) selected.set(event.sequence, event);
  }
  return {
    runs: [...found.values()],
    events: [...selected.values()].sort((a, b) => a.sequence - b.sequence),
    nestedOfOthers,
    unknown: { subjects: unknownSubjects, events: unknownEvents },
  };
}

/** Adds the runs that are nested in those and about the same subject. @returns the ids of the others. */
function addNested(catalogue: Catalogue, found: Map<number, CatalogueRun>): string[] {
  const others = new Set<string>();
  for (const run of found.values()) {
    for (const id of catalogue.children(run)) {
      for (const child of catalogue.run(run.organisation, id)) {
        if (child.targetId !== null && child.targetId === run.targetId) found.set(child.row, child);
        else if (!found.has(child.row)) others.add(id);
      }
    }
  }
  return [...others];
}

async function eventsOfId(catalogue: Catalogue, log: EventLog, eventId: string): Promise<SelectedEvent[]> {
  const { entries } = await log.withId({ eventId, known: catalogue.organisations() });
  const found: SelectedEvent[] = [];
  for (const { kind, organisation, sequence, receivedAt } of entries) {
    if (typeof kind === 'number') continue;
    const place = await log.find(organisation, uuidBytes(eventId));
    if (place === undefined) continue;
    const { at, size, runId } = place;
    const run = await runOf(catalogue, log, organisation, isNoId(runId) ? eventId : uuidText(runId));
    found.push({ at, size, sequence, kind, organisation, receivedAt, run });
  }
  return found;
}

/** The record that an event is of. @param id of its run; of the event, where it names no run: it may be nested in one. */
export async function runOf(
  catalogue: Catalogue,
  log: EventLog,
  organisation: string,
  id: string,
): Promise<CatalogueRun | undefined> {
  const own = catalogue.run(organisation, id).find((each) => each.recordId === id);
  if (own !== undefined) return own;
  const record = await catalogue.recordOfEvent(log, organisation, id);
  return record && catalogue.byRow(record.row);
}

/** What of a selection can be retired: events whose payload was stored in the clear have no key that could be destroyed. */
export interface Erasable {
  /** One for each bucket and organisation. */
  readonly keys: readonly TakenKeys[];
  readonly events: readonly SelectedEvent[];
  readonly plain: number;
  readonly already: number;
}

const READ_TOGETHER = 1024;

export function erasable(log: EventLog, selected: readonly SelectedEvent[]): Erasable {
  const retired = log.actions?.().retired ?? SequenceSet.EMPTY;
  const left = selected.filter(({ sequence }) => !retired.has(sequence));
  const byKey = new Map<string, { tag: number; organisation: string; sequences: number[] }>();
  const events: SelectedEvent[] = [];
  for (let at = 0; at < left.length; at += READ_TOGETHER) {
    const some = left.slice(at, at + READ_TOGETHER);
    const buckets = log.buckets?.(some) ?? [];
    for (const [i, event] of some.entries()) {
      const tag = buckets[i];
      if (tag === undefined) continue;
      const name = `${tag} ${event.organisation}`;
      const keys = byKey.get(name) ?? { tag, organisation: event.organisation, sequences: [] };
      byKey.set(name, keys);
      keys.sequences.push(event.sequence);
      events.push(event);
    }
  }
  const keys = [...byKey.values()].map((each) => ({ ...each, sequences: SequenceSet.of(each.sequences) }));
  return { keys, events, plain: left.length - events.length, already: selected.length - left.length };
}
