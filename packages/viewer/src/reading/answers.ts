/** Answers questions from the viewer's catalogue and the log, one after another. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClinicalRecord } from '@clinical-events/protocol';
import {
  Catalogue,
  CatalogueDamaged,
  CatalogueFault,
  type CatalogueRun,
  modelsNamed,
  type NameKind,
  type RunFilter,
  type RunSummary,
} from '@clinical-events/collector/catalogue/catalogue';
import { recordsIn } from '@clinical-events/collector/commands/catalogue';
import { NotSignedYet, proveEvent } from '@clinical-events/collector/commands/event-proof';
import { CommandFailure, EXIT } from '@clinical-events/collector/commands/exit-codes';
import { StoreDamaged } from '@clinical-events/collector/store/contract/events';
import { countReport } from '@clinical-events/report/count-report';
import { type FoundProof, type ListedRun, NotReadable, type RunsPage, type Scope } from '../contract.js';
import { cosignedAt } from './cosigned-at.js';
import { holdsOn } from './holds-on.js';
import { NamesKeys } from './names-keys.js';
import { OpenedLog, type ViewersLog } from './opened-log.js';
import type { Answered, Kind, Names, PassedRun, ProofAsked, Question, RunAsked } from './questions.js';
import { ownCatalogue, type ReadingPlaces } from './reading-places.js';
import { partOf } from './run-part.js';
import { filterWithin, isWithin } from './scopes.js';
import { AGAIN, sentenceOf, TOO_LARGE, UNSIGNED, UPDATING } from './trouble.js';
import { summaryWithoutPersons, withoutContents } from './without-contents.js';

/** How long a question waits while an update is not complete. */
const PATIENCE_MS = 2000;
const STEP_MS = 20;
/** How often a run is assembled again, because an event of it was erased meanwhile. */
const ATTEMPTS = 5;
/** A run of this size is assembled in about a second. */
const MOST_RUN_BYTES = 32 << 20;
/** Limit of the names of each kind. */
const MOST_NAMES = 1000;

/** An unchanging state of the catalogue, and the log. */
interface Source {
  readonly catalogue: Catalogue;
  readonly log: ViewersLog;
}

export class Answers {
  readonly #namesKeys: NamesKeys;
  readonly #opened: OpenedLog;
  #catalogue: Catalogue | undefined;
  #ledger = '';
  /** The id of the key of names of the open catalogue. */
  #key: string | undefined;

  constructor(private readonly places: ReadingPlaces) {
    this.#namesKeys = new NamesKeys(places.stateDir);
    this.#opened = new OpenedLog(places, this.#namesKeys, { needsKeys: false });
  }

  /** @throws NotReadable if the question cannot be answered now; any other error is a fault. */
  async answer<Of extends Kind>(question: Question<Of>): Promise<Answered[Of]['answer']> {
    const answer = this.#answerTo(question) as (source: Source) => Promise<Answered[Of]['answer']>;
    try {
      return await this.#ask(question.atLeast, answer);
    } catch (error) {
      if (!(error instanceof StoreDamaged)) throw error;
      // A restored log, or a file that was compacted meanwhile.
      await this.close();
    }
    return this.#ask(question.atLeast, answer);
  }

  async close(): Promise<void> {
    this.#closeCatalogue();
    await this.#opened.close();
  }

  #answerTo({ kind, asked }: Question): (source: Source) => Promise<unknown> {
    const of = asked as never;
    const answers: Record<Kind, (source: Source) => Promise<unknown>> = {
      runs: (source) => Promise.resolve(this.#runs(source, of)),
      run: (source) => this.#run(source, of),
      proof: (source) => this.#proof(source, of),
      report: (source) => this.#report(source, of),
      names: (source) => Promise.resolve(this.#names(source, of)),
    };
    return answers[kind];
  }

  /** Runs `use` on a committed state of the catalogue. @throws NotReadable */
  async #ask<Answer>(atLeast: number, use: (source: Source) => Promise<Answer>): Promise<Answer> {
    const log = await this.#opened.log();
    const catalogue = await this.#held(log);
    try {
      if (catalogue.cursor.sequence - 1 < atLeast) throw new NotReadable(AGAIN);
      return await use({ catalogue, log });
    } catch (error) {
      if (error instanceof CatalogueDamaged) {
        // The next update makes another file.
        this.#closeCatalogue();
        throw new NotReadable(AGAIN, { cause: error });
      }
      if (error instanceof CatalogueFault) throw new NotReadable(UPDATING, { cause: error });
      throw error;
    } finally {
      this.#catalogue?.release();
    }
  }

  /** A catalogue that does not change until its release. @throws NotReadable */
  async #held(log: ViewersLog): Promise<Catalogue> {
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        const catalogue = this.#current(log);
        if (catalogue.hold()) return catalogue;
        this.#useOtherKey();
      } catch (error) {
        if (!(error instanceof CatalogueFault)) throw error;
        this.#closeCatalogue();
      }
      if (performance.now() >= until) throw new NotReadable(UPDATING);
      await sleep(STEP_MS);
    }
  }

  /** Opened again if the file, the log or the key of names is another one. */
  #current(log: ViewersLog): Catalogue {
    const { ledgerId } = log;
    const ciphers = this.#namesKeys.ciphers();
    const names = ciphers.find(({ id }) => id === this.#key) ?? ciphers[0];
    const isSame = this.#ledger === ledgerId && this.#key === names?.id;
    if (this.#catalogue !== undefined && isSame && this.#catalogue.isCurrent) return this.#catalogue;
    this.#closeCatalogue();
    [this.#ledger, this.#key] = [ledgerId, names?.id];
    return (this.#catalogue = Catalogue.open({
      ...{ directory: ownCatalogue(this.places), ledgerId },
      ...(names !== undefined && { names }),
    }));
  }

  /** While a key is being replaced, names are sealed by the one or by the other. */
  #useOtherKey(): void {
    const other = this.#namesKeys.ciphers().find(({ id }) => id !== this.#key);
    if (other === undefined) return;
    this.#closeCatalogue();
    this.#key = other.id;
  }

  #closeCatalogue(): void {
    this.#catalogue?.close();
    this.#catalogue = undefined;
  }

  #runs({ catalogue }: Source, asked: Answered['runs']['asked']): RunsPage {
    const { scope, filter, offset, limit } = asked;
    const own = filterWithin(scope, { ...filter, isRun: true });
    const runs: ListedRun[] = [];
    if (own === undefined) return { runs, hasMore: false };
    let [at, hasMore] = [0, false];
    for (const run of catalogue.runs({ ...own, limit: offset + limit + 1 })) {
      if (at++ < offset) continue;
      if (runs.length === limit) hasMore = true;
      else runs.push(listed(summaryOf(run)));
    }
    return { runs, hasMore };
  }

  async #run(source: Source, asked: RunAsked): Promise<PassedRun | undefined> {
    const { scope, recordId, organisation, withContents, from } = asked;
    const found = runOf(source, scope, recordId, organisation);
    if (found === undefined) return undefined;
    const record = await assembled(source, found);
    if (record === undefined) return undefined;
    const { events } = record.metadata;
    const erasures = events.flatMap(({ action }) => (typeof action === 'string' ? [action] : []));
    const holds = [...new Set([...holdsOn(this.places.dataDir, source.log, record), ...erasures])];
    const summary = summaryOf(found);
    // The catalogue may be older than the erasure.
    const isErased = events.some(({ payload }) => payload === 'erased');
    const seen = linksWithin(source, scope, withContents ? record : withoutContents(record));
    const { record: shown, part } = partOf(seen, from);
    return {
      summary: isErased || !withContents ? summaryWithoutPersons(summary) : summary,
      record: JSON.stringify(shown),
      ...{ part, holds },
    };
  }

  async #proof(source: Source, asked: ProofAsked): Promise<FoundProof | undefined> {
    const { scope, eventId, organisation, withContents } = asked;
    const { catalogue, log } = source;
    if (scope.organisations?.includes(organisation) === false) return undefined;
    const of = await catalogue.recordOfEvent(log, organisation, eventId);
    if (of === undefined) return undefined;
    if (runOf(source, scope, of.recordId, organisation, of.runId !== null) === undefined) return undefined;
    const { dataDir } = this.places;
    const reading = {
      ...{ events: log, files: log, tree: this.#opened.tree, dataDir, place: 'the log' },
      mayBeSigned: () => true,
    };
    try {
      const proof = await proveEvent(reading, eventId, organisation, { waitMs: 0, warn: () => undefined });
      return {
        ...{ text: withContents ? proof.proof : undefined, sequence: proof.event.sequence },
        ...{ eventId, recordId: of.recordId },
        checkpointAt: cosignedAt(proof.checkpoint.note, proof.cosignedBy),
        checkpointSize: proof.checkpoint.checkpoint.size,
        ...{ cosignedBy: proof.cosignedBy, verifierKey: proof.verifierKey },
      };
    } catch (error) {
      if (error instanceof NotSignedYet) throw new NotReadable(UNSIGNED, { cause: error });
      if (!(error instanceof CommandFailure)) throw error;
      if (error.exitCode === EXIT.notFound) return undefined;
      throw new NotReadable(sentenceOf(error), { cause: error });
    }
  }

  #report(source: Source, asked: Answered['report']['asked']): Promise<Answered['report']['answer']> {
    const { scope, model, ...period } = asked;
    const filter = filterWithin(scope, { organisation: asked.organisation });
    // A report cannot be limited to the runs of a caller. Without organisations it counts nothing.
    const nothing = { organisations: [], applications: [] };
    const { organisations, applications } =
      filter === undefined || scope.caller !== undefined ? nothing : filter;
    const request = {
      ...{ ...period, organisations, applications },
      model,
      models: model === undefined ? undefined : modelsNamed(model),
    };
    return countReport(source, request, () => undefined);
  }

  #names({ catalogue }: Source, scope: Scope): Names {
    const filter = filterWithin(scope, { isRun: true });
    const named = (kind: NameKind) =>
      [...catalogue.names(kind, { ...filter, limit: MOST_NAMES })]
        .flatMap(({ names: [name] }) => name ?? [])
        .sort();
    const organisations = catalogue.organisations().sort();
    return {
      organisations: organisations.filter((name) => scope.organisations?.includes(name) !== false),
      ...{ applications: named('apps'), models: named('models') },
    };
  }
}

/** The run with an id in a scope; undefined if several organisations have one. */
function runOf(
  { catalogue }: Source,
  scope: Scope,
  recordId: string,
  organisation: string | undefined,
  isRun?: boolean,
): CatalogueRun | undefined {
  const found = catalogue
    .run(organisation, recordId)
    .filter((run) => isRun === undefined || run.isRun === isRun)
    .filter((run) => isWithin(scope, run, catalogue));
  const runs = found.some((run) => run.isRun) ? found.filter((run) => run.isRun) : found;
  return runs.length === 1 ? runs[0] : undefined;
}

/** A run outside the scope counts as missing also where another run is nested in it, holds it or meets it. */
function linksWithin(source: Source, scope: Scope, record: ClinicalRecord): ClinicalRecord {
  if (scope.applications === undefined && scope.caller === undefined) return record;
  const { organisation, parent, children, conflicts } = record.metadata;
  const isSeen = (id: string) => runOf(source, scope, id, organisation, true) !== undefined;
  const above = parent?.run_id ?? undefined;
  return {
    ...record,
    metadata: {
      ...record.metadata,
      parent: parent !== null && above !== undefined && !isSeen(above) ? { ...parent, run_id: null } : parent,
      children: children.filter(isSeen),
      conflicts: conflicts.map((conflict) =>
        conflict.run_ids === undefined ? conflict : { ...conflict, run_ids: conflict.run_ids.filter(isSeen) },
      ),
    },
  };
}

/** The record of a run, after all erasures that the log has. @throws NotReadable */
async function assembled(source: Source, run: CatalogueRun): Promise<ClinicalRecord | undefined> {
  const { recordId, organisation, isRun } = run;
  assertFits(source, { recordId, organisation, isRun });
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let record: ClinicalRecord | undefined;
    for await (const each of recordsIn(source, { recordId, organisation, isRun })) record ??= each;
    if (record === undefined) return undefined;
    const { erased } = source.log.actions();
    if (
      record.metadata.events.every(({ payload, sequence }) => payload === 'erased' || !erased.has(sequence))
    )
      return record;
  }
  throw new NotReadable(UPDATING);
}

/** @throws NotReadable if a run is too large to be read whole, which a page needs. */
function assertFits({ catalogue }: Source, run: RunFilter): void {
  for (const [placed] of catalogue.placed(run)) {
    const bytes = placed?.places().reduce((sum, { size }) => sum + size, 0) ?? 0;
    if (bytes > MOST_RUN_BYTES) throw new NotReadable(TOO_LARGE);
  }
}

/** A copy can pass between threads. */
function summaryOf(run: CatalogueRun): RunSummary {
  return without(run, ['row', 'events']);
}

function listed(run: RunSummary): ListedRun {
  return without(run, ['userId', 'targetId']);
}

function without<Whole extends object, Name extends keyof Whole & string>(
  whole: Whole,
  names: readonly Name[],
): Omit<Whole, Name> {
  const left = Object.entries(whole).filter(([name]) => !names.some((each) => each === name));
  return Object.fromEntries(left) as Omit<Whole, Name>;
}
