/** How a command gets an up-to-date catalogue that does not change while it is read. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type ClinicalRecord, nearestName } from '@clinical-events/protocol';
import {
  Catalogue,
  CatalogueBusy,
  CatalogueDamaged,
  CatalogueFault,
  type NameKind,
  type PlacedRecord,
  modelsNamed,
  type RunFilter,
  catalogueDirectory,
} from '../catalogue/catalogue.js';
import type { RunLinks } from '../records/assemble.js';
import { outsideParents, recordsOf, windowsOf } from '../records/record-windows.js';
import type { RunEvent } from '../records/run-event.js';
import { BEGINNING, type Cursor, type EventLog } from '../store/contract/events.js';
import { claimedSize, openStore } from '../store/open-to-read.js';
import { systemCode } from '../system-code.js';
import { type GivenOut, type Access, logAccess } from './access-log.js';
import { interruption } from './exit-codes.js';
import { SummingThreads } from './summing-threads.js';
import { ProgressBar, type ProgressOptions, printable } from './terminal.js';
import { assertReadable, assertReaches } from './regular-files.js';

export { modelsNamed };

export interface CatalogueRequest {
  readonly dataDir: string;
  /** Suppresses progress. */
  readonly quiet: boolean;
  /** Aborts the update; its reason is thrown. */
  readonly signal: AbortSignal;
  /** How long to wait for another process that makes no progress; tests shorten it. */
  readonly waitMs?: number;
}

const WAIT_MS = 30_000;
const SILENT_WAIT_MS = 2000;
/** Size from which a progress bar is shown. */
const BAR_FROM_MEBIBYTES = 32;
const MEBIBYTE = 1 << 20;
const ATTEMPTS = 5;

/**
 * Opens a catalogue that covers every event that was durable at the call. The caller closes it.
 * @throws CommandFailure if the log is damaged; CatalogueFault if no catalogue can be made; the reason of the
 *   signal.
 */
export async function openCatalogue(request: CatalogueRequest): Promise<CatalogueAccess> {
  const { events: log, tree } = openStore(request.dataDir);
  let access: CatalogueAccess | undefined;
  try {
    // The claim is read first: a running collector appends while the log is read.
    const claimed = await claimedSize(tree);
    access = new CatalogueAccess(request, log);
    await access.update();
    assertReaches(access.cursor.sequence - 1, claimed);
    return access;
  } catch (error) {
    access?.catalogue.close();
    await log.close();
    throw error;
  }
}

function directoryFor({ dataDir, quiet }: CatalogueRequest, log: EventLog): string {
  const directory = catalogueDirectory(dataDir);
  // A catalogue contains patient ids: it is made elsewhere only if this directory cannot be written.
  if (isWritable(directory)) return directory;
  const parent = os.tmpdir();
  if (!quiet && log.extent >= BAR_FROM_MEBIBYTES * MEBIBYTE) {
    const where = `cannot make a catalogue in ${dataDir}: making one in ${parent} (TMPDIR) for this command`;
    process.stderr.write(`collector: ${where}\n`);
  }
  return temporaryDirectory(parent);
}

/** Whether the existing catalogue, or the directory for a new one, can be written. */
function isWritable(directory: string): boolean {
  const parts = [directory, path.join(directory, 'catalogue.sqlite')].filter((part) => fs.existsSync(part));
  try {
    for (const part of parts.length > 0 ? parts : [path.dirname(directory)]) {
      fs.accessSync(part, fs.constants.W_OK);
    }
    return true;
  } catch {
    return false;
  }
}

/** A private directory that is removed when the process exits. */
function temporaryDirectory(parent: string): string {
  let made: string;
  try {
    made = fs.mkdtempSync(path.join(parent, 'collector-catalogue-'));
  } catch (error) {
    throw new CatalogueFault(`TMPDIR: no directory can be made in ${parent} (${systemCode(error)})`, {
      cause: error,
    });
  }
  process.once('exit', () => fs.rmSync(made, { recursive: true, force: true }));
  return catalogueDirectory(made);
}

export class CatalogueAccess {
  /** Shows one state until it is closed. */
  readonly catalogue: Catalogue;
  #cursor: Cursor = BEGINNING;

  /** @param log closed together with the catalogue. @throws CatalogueFault */
  constructor(
    private readonly request: CatalogueRequest,
    readonly log: EventLog,
  ) {
    let isReported = request.quiet;
    this.catalogue = Catalogue.open({
      directory: directoryFor(request, log),
      ...{ ledgerId: log.ledgerId, names: log.names, waitMs: request.waitMs ?? WAIT_MS },
      onWait(elapsedMs) {
        if (isReported || elapsedMs < SILENT_WAIT_MS) return;
        isReported = true;
        process.stderr.write('collector: waiting for another process that is writing the catalogue\n');
      },
    });
  }

  /** The position after the last entry that the catalogue covers. */
  get cursor(): Cursor {
    return this.#cursor;
  }

  /**
   * Answers a question. If the question reveals damage, the catalogue is rebuilt and the question repeated.
   * @param mayRepeat false once something was printed, which cannot be taken back.
   * @throws CommandFailure, or what the question throws.
   */
  async ask<Answer>(
    question: (catalogue: Catalogue) => Answer | Promise<Answer>,
    mayRepeat: () => boolean = () => true,
  ): Promise<Answer> {
    try {
      return await question(this.catalogue);
    } catch (error) {
      if (!(error instanceof CatalogueDamaged) || !mayRepeat()) throw error;
    }
    await this.update();
    return question(this.catalogue);
  }

  async close(): Promise<void> {
    this.catalogue.close();
    await this.log.close();
  }

  /** @throws CatalogueFault, StoreDamaged, or the reason of the signal. */
  async update(): Promise<void> {
    this.catalogue.release();
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      this.#cursor = await this.#takeIn();
      // False if another process has added more since, and has not finished.
      if (this.catalogue.hold()) return;
    }
    throw new CatalogueBusy('the catalogue is busy: another process keeps writing it; try again');
  }

  /** Waits while another process makes progress. */
  async #takeIn(): Promise<Cursor> {
    const { signal } = this.request;
    const bar = this.#bar();
    try {
      for (;;) {
        const before = this.catalogue.cursor.sequence;
        try {
          const { cursor } = await this.catalogue.update(this.log, {
            ...{ signal, onProgress: bar.onProgress },
            startThreads: () => new SummingThreads(this.request.dataDir),
          });
          return cursor;
        } catch (error) {
          if (!(error instanceof CatalogueBusy) || this.catalogue.cursor.sequence === before) throw error;
        }
      }
    } finally {
      bar.clear();
    }
  }

  #bar() {
    const wanted = !this.request.quiet && process.stderr.isTTY;
    const bar = new ProgressBar({
      ...{ wanted, unit: 'MiB of the log put into the catalogue', per: MEBIBYTE, rate: true },
      from: BAR_FROM_MEBIBYTES,
    });
    let first: number | undefined;
    return {
      onProgress: (_: number, share: number) => {
        first ??= share;
        const { extent } = this.log;
        bar.show((share - first) * extent, (1 - first) * extent);
      },
      clear: () => bar.clear(),
    };
  }
}

/* A reading of runs from the catalogue. It is logged in the access log, and a signal ends it. */

export interface RunAccessOptions {
  readonly dataDir: string;
  readonly logAs: Access;
  /** Suppresses progress. */
  readonly quiet: boolean;
  /** The message if a signal ends it. */
  readonly interrupted?: string;
  /** The unit of the progress bar, and the number from which it is shown. */
  readonly counts?: Pick<ProgressOptions, 'unit' | 'from'>;
}

/** The sources of records. */
export interface RecordSource {
  /** Up to date, and unchanged until the reading ends. */
  readonly catalogue: Catalogue;
  readonly log: EventLog;
}

export interface RunReading extends RecordSource {
  readonly givenOut: GivenOut;
  /** Aborted by a signal. */
  readonly signal: AbortSignal;
  readonly bar: ProgressBar;
}

const EVENTS = { unit: 'events', from: 50_000 };

/**
 * Runs `use` on an up-to-date catalogue. The reading is complete once `use` returns. If the catalogue proves
 * damaged before anything is printed, it is rebuilt and `use` is called again.
 * @throws CommandFailure if there is no log, if it is damaged or shorter than a checkpoint claims, if no
 *   catalogue can be made, or if the access cannot be logged.
 */
export async function readRuns<Answer>(
  { dataDir, logAs, quiet, interrupted, counts = EVENTS }: RunAccessOptions,
  use: (reading: RunReading) => Promise<Answer>,
): Promise<Answer> {
  assertReadable(dataDir);
  const signal = interruption(interrupted);
  const givenOut = logAccess(dataDir, logAs);
  const access = await openCatalogue({ dataDir, quiet, signal });
  const { log } = access;
  const wanted = !quiet && process.stderr.isTTY;
  const bar = new ProgressBar({ ...{ wanted, per: 1, rate: true }, ...counts });
  try {
    const answer = await access.ask(
      (catalogue) => use({ catalogue, log, givenOut, signal, bar }),
      () => givenOut.events === 0 && givenOut.done === undefined,
    );
    givenOut.complete = true;
    return answer;
  } finally {
    bar.clear();
    await access.close();
  }
}

/** Makes records on this thread, one after another. */
export async function* recordsIn(source: RecordSource, filter: RunFilter): AsyncGenerator<ClinicalRecord> {
  for (const page of source.catalogue.placed(filter)) {
    const runs = page.map((record) => ({ record, places: record.places() }));
    for (const window of windowsOf(runs)) {
      const linksAt = (run: number, events: readonly RunEvent[]) =>
        linksOf(source, window[run]?.record, events);
      yield* await recordsOf(source.log, window, linksAt);
    }
  }
}

async function linksOf(
  { catalogue, log }: RecordSource,
  record: PlacedRecord | undefined,
  events: readonly RunEvent[],
): Promise<RunLinks> {
  const runs = new Map<string, string | null | undefined>();
  for (const eventId of outsideParents(events)) {
    const organisation = events[0]?.event.organisation ?? '';
    runs.set(eventId, await runOfEvent({ catalogue, log }, organisation, eventId));
  }
  return {
    parentRunOf: (eventId) => runs.get(eventId),
    children: record?.hasChildren ? catalogue.children(record) : [],
    cycle: record?.isInCircle ? catalogue.cycle(record) : [],
  };
}

/** The run of an event; null if it has none, undefined if the log does not have the event. */
export async function runOfEvent(
  { catalogue, log }: RecordSource,
  organisation: string,
  eventId: string,
): Promise<string | null | undefined> {
  const found = await catalogue.recordOfEvent(log, organisation, eventId);
  return found?.runId;
}

/*
 * Hints for an empty answer: names in the filter that no record has, and events found only by the other
 * clock.
 */

/** The hint for an answer that is empty by time of receipt. */
export const BY_SENDERS =
  "by the senders' clocks there are some in that period, as after an import or a demo: add --clock sender";

export interface NameFilter extends Pick<RunFilter, 'organisation' | 'application' | 'user' | 'target'> {
  /** MODEL_ID or MODEL_ID@VERSION. */
  readonly model?: string | undefined;
}

/** The nearest name is searched among the names with the most runs; longer names are left out. */
const MOST_NAMES = 10_000;
const LONGEST_NAME = 200;

/**
 * Finds names in the filter that no record has, for use when nothing was found.
 * @param showsPersons whether the nearest user may be named. The typed id and targets are never named.
 * @returns one warning per unknown name, with the nearest existing name.
 */
export function unknownNames(
  catalogue: Catalogue,
  { organisation, model, application, user, target }: NameFilter,
  showsPersons = process.stderr.isTTY,
): string[] {
  const isUnknown = (asked: RunFilter) =>
    Object.values(asked).some((value) => value !== undefined) &&
    catalogue.count({ ...asked, limit: 1 }) === 0;
  const nearest = (kind: NameKind, name = '') => {
    const near = nearestName(name, namesNear(catalogue, kind));
    return near === undefined ? '' : `; the nearest is "${near}"`;
  };
  const quoted = (name = '') => `"${printable(name)}"`;
  const models = model === undefined ? undefined : modelsNamed(model);
  const warnings: [RunFilter, () => string][] = [
    [
      { organisation },
      () => `no event has the organisation ${quoted(organisation)}${nearest('organisations', organisation)}`,
    ],
    [{ models }, () => `no run has the model ${quoted(model)}${nearest('versions', model)}`],
    [{ target }, () => 'no run has this target'],
    [
      { user },
      () =>
        `no run has this user${showsPersons ? nearest('users', user) : '; list them: collector names users'}`,
    ],
    [
      { application },
      () => `no run has the application ${quoted(application)}${nearest('apps', application)}`,
    ],
  ];
  return warnings.flatMap(([asked, warning]) => (isUnknown(asked) ? warning() : []));
}

/**
 * Names in the form that a filter accepts. A name with control characters is left out, since it could move
 * the cursor.
 */
function* namesNear(catalogue: Catalogue, kind: NameKind): Generator<string> {
  for (const { names } of catalogue.names(kind, { limit: MOST_NAMES })) {
    const [name = '', version] = names.map((each) => each ?? '');
    const typed = kind === 'versions' ? [name, `${name}@${version}`] : [name];
    yield* typed.filter((each) => each.length <= LONGEST_NAME && printable(each) === each);
  }
}

/** The same for a command without an open catalogue; empty if none can be made. */
export async function unknownNamesIn(
  dataDir: string,
  filter: NameFilter,
  signal: AbortSignal,
): Promise<string[]> {
  if (filter.organisation === undefined && filter.model === undefined) return [];
  const access = await openCatalogue({ dataDir, quiet: true, signal }).catch(() => undefined);
  try {
    return access === undefined ? [] : unknownNames(access.catalogue, filter);
  } finally {
    await access?.close();
  }
}
