/** The log behind the pages. This thread passes on questions; others read. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClinicalRecord } from '@clinical-events/protocol';
import { nodeFiles } from '@clinical-events/collector/files';
import { messageOf, systemCode } from '@clinical-events/collector/system-code';
import { parseExact } from '@clinical-events/collector/records/raw-json';
import {
  DirectoryInUse,
  type DirectoryLock,
  lockDirectory,
} from '@clinical-events/collector/store/directory-lock';
import type { ReportNumbers } from '@clinical-events/report/report-numbers';
import {
  BEGAN,
  type FoundProof,
  type FoundRun,
  LookRefused,
  NotReadable,
  type Reading,
  type ReadingState,
  type ReportAsked,
  type RunsAsked,
  type RunsPage,
  type Scope,
} from '../contract.js';
import type { FollowerData, FollowerSays } from './follower-thread.js';
import { AskedThread, KeptThread } from './kept-thread.js';
import type { Names, ProofAsked, RunAsked } from './questions.js';
import type { ReadingPlaces } from './reading-places.js';
import { buildingText, STOPPED } from './trouble.js';
import { StateFile } from './viewer-state.js';

export interface ReadingOptions extends ReadingPlaces {
  /** Reports that names of erased events are gone from the viewer's own files; repeated until it succeeds. */
  readonly onFollowed: (action: string) => Promise<void>;
  /** Gets messages for the operator, without contents of events. */
  readonly onTrouble: (message: string) => void;
  /** The pause between two updates of the catalogue. */
  readonly everyMs?: number;
}

const EVERY_MS = 1000;
const FIRST_PAUSE_MS = 1000;
const MOST_PAUSE_MS = 60_000;
/** Names of a filter are answered from memory for this time, and later while they are read again. */
const NAMES_KEPT_MS = 30_000;
/** A list does not wait longer for the names of its filter. */
const NAMES_WAIT_MS = 300;
const MOST_SCOPES = 256;
const REPORT_KEPT_MS = 10_000;
const MOST_REPORTS = 64;
const OTHER = '--state-dir names another directory';
const NO_NAMES: Names = { organisations: [], applications: [], models: [] };

/**
 * Resolves when the state of the log is known.
 * @throws Error if another viewer uses the state directory, or it cannot be written.
 */
export async function openReading(options: ReadingOptions): Promise<Reading & { readonly viewerId: string }> {
  const { stateDir } = options;
  let lock: DirectoryLock;
  try {
    lock = lockDirectory(stateDir);
  } catch (error) {
    if (error instanceof DirectoryInUse)
      throw new Error(`${stateDir} is in use by another viewer; ${OTHER}`, { cause: error });
    const reason = systemCode(error) ?? messageOf(error);
    throw new Error(`${stateDir} cannot be written (${reason}); ${OTHER}`, { cause: error });
  }
  nodeFiles.makeDirectory(stateDir);
  const { id } = new StateFile(stateDir).current;
  const reading = new ThreadedReading(options, lock, id);
  await reading.state();
  return reading;
}

class ThreadedReading implements Reading {
  readonly #follower: KeptThread;
  readonly #questions: AskedThread;
  readonly #reports: AskedThread;
  readonly #names = new Map<string, { readonly at: number; readonly names: Promise<Names> }>();
  readonly #known = new Map<string, Names>();
  readonly #counted = new Map<string, { readonly at: number; readonly numbers: Promise<ReportNumbers> }>();
  readonly #closed = new AbortController();
  /** Erasures whose reports are not recorded yet. */
  readonly #reporting = new Set<string>();
  readonly #first = Promise.withResolvers<ReadingState>();
  #state: ReadingState | undefined;
  #trouble = '';

  constructor(
    private readonly options: ReadingOptions,
    private readonly lock: DirectoryLock,
    readonly viewerId: string,
  ) {
    const { dataDir, stateDir, kek, keysKeptMs, everyMs = EVERY_MS } = options;
    const places: ReadingPlaces = { dataDir, stateDir, kek, keysKeptMs };
    const workerData: FollowerData = { ...places, everyMs };
    this.#follower = new KeptThread({
      ...{ file: new URL('./follower-thread.js', import.meta.url), workerData },
      onMessage: (message) => this.#hear(message as FollowerSays),
      onEnd: (reason) => this.#report(`the thread that follows the log has ended: ${reason}`),
    });
    const file = new URL('./question-thread.js', import.meta.url);
    const onTrouble = (message: string) => this.#report(message);
    this.#questions = new AskedThread(file, places, onTrouble);
    this.#reports = new AskedThread(file, places, onTrouble);
  }

  async state(): Promise<ReadingState> {
    return this.#state ?? this.#first.promise;
  }

  async names(scope: Scope): Promise<Names> {
    const key = JSON.stringify([scope.organisations, scope.applications, scope.caller]);
    const kept = this.#names.get(key);
    if (kept === undefined || performance.now() - kept.at > NAMES_KEPT_MS) this.#learnNames(key, scope);
    const names = this.#names.get(key)?.names;
    const known = this.#known.get(key);
    if (known !== undefined || names === undefined) return known ?? NO_NAMES;
    return Promise.race([names, sleep(NAMES_WAIT_MS, NO_NAMES, { ref: false })]);
  }

  /** They come from the thread of reports, because counting a million runs by name takes a second. */
  #learnNames(key: string, scope: Scope): void {
    if (this.#names.size >= MOST_SCOPES) {
      this.#names.clear();
      this.#known.clear();
    }
    const names = this.#ask(this.#reports, 'names', scope).then(
      (found) => {
        this.#known.set(key, found);
        return found;
      },
      () => {
        this.#names.delete(key);
        return NO_NAMES;
      },
    );
    this.#names.set(key, { at: performance.now(), names });
  }

  runs(asked: RunsAsked): Promise<RunsPage> {
    return this.#ask(this.#questions, 'runs', asked);
  }

  async run(asked: RunAsked): Promise<FoundRun | undefined> {
    const found = await this.#ask(this.#questions, 'run', asked);
    return found && { ...found, record: parseExact(found.record) as ClinicalRecord };
  }

  proof(asked: ProofAsked): Promise<FoundProof | undefined> {
    return this.#ask(this.#questions, 'proof', asked);
  }

  /** The same report is counted once for all who ask within ten seconds. It has no names of persons. */
  report(asked: ReportAsked): Promise<ReportNumbers> {
    const key = JSON.stringify(asked);
    const kept = this.#counted.get(key);
    if (kept !== undefined && performance.now() - kept.at < REPORT_KEPT_MS) return kept.numbers;
    if (this.#counted.size >= MOST_REPORTS) this.#counted.clear();
    const numbers = this.#ask(this.#reports, 'report', asked);
    this.#counted.set(key, { at: performance.now(), numbers });
    numbers.catch(() => this.#counted.delete(key));
    return numbers;
  }

  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    await Promise.all([this.#follower.stop(), this.#questions.stop(), this.#reports.stop()]);
    this.lock.release();
  }

  /** @throws NotReadable */
  async #ask<Of extends Parameters<AskedThread['ask']>[0]>(
    thread: AskedThread,
    kind: Of,
    asked: Parameters<typeof thread.ask<Of>>[1],
  ): ReturnType<typeof thread.ask<Of>> {
    if (this.#closed.signal.aborted) throw new NotReadable(STOPPED);
    const { catalogue, progress, reason, entries } = await this.state();
    if (catalogue === 'building') throw new NotReadable(buildingText(progress));
    if (catalogue === 'unusable') throw new NotReadable(reason ?? STOPPED);
    return thread.ask(kind, asked, entries);
  }

  #hear(said: FollowerSays): void {
    if ('trouble' in said) return this.#report(said.trouble);
    if ('followed' in said) {
      this.#reportFollowed(said.followed).catch(() => undefined);
      return;
    }
    this.#state = said.state;
    if (said.state.reason === undefined) this.#trouble = '';
    this.#first.resolve(said.state);
  }

  async #reportFollowed(action: string): Promise<void> {
    const { signal } = this.#closed;
    // A follower that was started again passes it on again.
    if (this.#reporting.has(action)) return;
    this.#reporting.add(action);
    let reported = '';
    for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, MOST_PAUSE_MS)) {
      try {
        await this.options.onFollowed(action);
        this.#follower.post(action);
        this.#reporting.delete(action);
        return;
      } catch (error) {
        const reason = error instanceof LookRefused ? `: ${error.message}` : '';
        const what = action === BEGAN ? 'looks' : `the erasure ${action} is followed, and the report of it`;
        const message = `${what} cannot be recorded yet${reason}`;
        // Only a changed reason is reported again: this state may last for days.
        if (message !== reported) this.#report(message);
        reported = message;
      }
      await sleep(pause, undefined, { ref: false, signal }).catch(() => undefined);
    }
  }

  /** The same message is reported once until the log can be read. */
  #report(message: string): void {
    if (this.#closed.signal.aborted || message === this.#trouble) return;
    this.#trouble = message;
    this.options.onTrouble(message);
  }
}
