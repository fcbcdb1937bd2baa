/** The types that the rooms of the viewer share: who looks, what may be seen, and the answers of the log. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { RunFilter, RunSummary } from '@clinical-events/collector/catalogue/catalogue';
import type { RunPart } from './reading/run-part.js';
import type { ReportNumbers } from '@clinical-events/report/report-numbers';

export const ROLES = ['reviewer', 'clinician', 'auditor', 'break-glass'] as const;
export type Role = (typeof ROLES)[number];

/** A person whose login was checked. */
export interface Person {
  readonly kind: 'os' | 'oidc' | 'proxy';
  /** The name in the access log. */
  readonly name: string;
  /** The id of this person as `caller_id` in events; undefined if the login states none. */
  readonly callerId: string | undefined;
  readonly groups: readonly string[];
}

/** The limits of a role of a person. An undefined list stands for all. */
export interface Scope {
  readonly organisations: readonly string[] | undefined;
  readonly applications: readonly string[] | undefined;
  /** Only runs whose calls all name this caller. */
  readonly caller: string | undefined;
}

/** A person acting in one of the roles; every page belongs to one. */
export interface Acting {
  readonly person: Person;
  readonly role: Role;
  readonly scope: Scope;
  /** The stated reason of break-glass. */
  readonly reason: string | undefined;
}

/** A look that is recorded before its page is sent. */
export interface Look {
  readonly acting: Acting;
  readonly what: 'runs' | 'run' | 'report' | 'proof' | 'break-glass';
  /**
   * Kinds, times and names of models; `true` in place of the id of a person. A look at a run has its record
   * id as `run`, one at a proof the id of the event as `event`: the collector refuses others, because looks are
   * found by these ids. Names are lower case with underscores; values are texts, whole numbers and booleans.
   */
  readonly filter: Readonly<Record<string, unknown>>;
}

/** In place of an erasure: the viewer keeps names from now on, and so certificates list it. */
export const BEGAN = 'began';

/** Records looks in the access log of the collector or mirror. */
export interface Looks {
  /**
   * On return the look is in the access log, durably.
   * @returns records the end: the number of events on the page that was sent.
   * @throws LookRefused if it cannot be recorded; the page must not be sent.
   */
  begin(look: Look): Promise<(end: { readonly events: number; readonly complete: boolean }) => Promise<void>>;
  /** Reports that names of erased events are gone from the viewer's own files, or {@link BEGAN}. */
  followed(action: string): Promise<void>;
  close(): Promise<void>;
}

export class LookRefused extends Error {
  override name = 'LookRefused';
}

/* The log. */

/** The state of the viewer's own catalogue and of the keys. */
export interface ReadingState {
  /** `building`: the catalogue is being made or rebuilt. `unusable`: the reason says why. */
  readonly catalogue: 'ready' | 'building' | 'unusable';
  /** Share of the log in a catalogue that is being made, from 0 to 1. */
  readonly progress: number;
  readonly reason: string | undefined;
  /** `away`: payloads exist that are encrypted, and their keys cannot be read. */
  readonly keys: 'none' | 'readable' | 'away';
  /** The number of entries of the log in the catalogue, and the time of its last update (RFC 3339). */
  readonly entries: number;
  readonly asOf: string | undefined;
}

export interface RunsAsked {
  readonly scope: Scope;
  readonly filter: Omit<RunFilter, 'limit' | 'order' | 'isRun'> & { readonly clock: 'received' | 'sender' };
  /** The number of runs before the first one of this page. */
  readonly offset: number;
  readonly limit: number;
}

/** A run in a list, without names of persons. */
export type ListedRun = Omit<RunSummary, 'userId' | 'targetId'>;

export interface RunsPage {
  readonly runs: readonly ListedRun[];
  readonly hasMore: boolean;
}

/** A run with all that a page of it shows. */
export interface FoundRun {
  readonly summary: RunSummary;
  /** Without the contents of events that are not in the part. */
  readonly record: ClinicalRecord;
  readonly part: RunPart;
  /** Holds that cover it, and erasures of its events, by id of the action. */
  readonly holds: readonly string[];
}

/** The proof of an event: the file, and the facts that were verified when it was made. */
export interface FoundProof {
  /** C2SP tlog-proof; undefined without contents, because its salt allows to test guesses of the body. */
  readonly text: string | undefined;
  readonly sequence: number;
  readonly eventId: string;
  readonly recordId: string;
  /** Time of the checkpoint (RFC 3339), if the log states it; the number of entries that it covers. */
  readonly checkpointAt: string | undefined;
  readonly checkpointSize: number;
  readonly cosignedBy: readonly string[];
  /** Verifier key of the log that signed the checkpoint. */
  readonly verifierKey: string;
}

export interface ReportAsked {
  readonly scope: Scope;
  readonly organisation: string | undefined;
  readonly model: string | undefined;
  readonly since: number | undefined;
  readonly until: number | undefined;
  readonly clock: 'received' | 'sender';
}

/** Thrown if a question cannot be answered now; the message is for the person, without contents of events. */
export class NotReadable extends Error {
  override name = 'NotReadable';
}

/** The log behind the pages. A run outside the scope counts as missing. */
export interface Reading {
  state(): Promise<ReadingState>;
  /** Names for the lists of the filter: organisations, applications and models within the scope. */
  names(scope: Scope): Promise<{
    readonly organisations: readonly string[];
    readonly applications: readonly string[];
    readonly models: readonly string[];
  }>;
  /** @throws NotReadable */
  runs(asked: RunsAsked): Promise<RunsPage>;
  /**
   * @param recordId the whole id, lower case.
   * @param organisation undefined if the id is unique.
   * @param withContents false: only what an auditor may see; then no payload leaves the thread.
   * @param from the number of the first event on the page, from 0.
   * @throws NotReadable
   */
  run(asked: {
    readonly scope: Scope;
    readonly recordId: string;
    readonly organisation: string | undefined;
    readonly withContents: boolean;
    readonly from: number;
  }): Promise<FoundRun | undefined>;
  /** @throws NotReadable if there is no checkpoint over the event yet, or the proof is not valid. */
  proof(asked: {
    readonly scope: Scope;
    readonly eventId: string;
    readonly organisation: string;
    readonly withContents: boolean;
  }): Promise<FoundProof | undefined>;
  /** @throws NotReadable */
  report(asked: ReportAsked): Promise<ReportNumbers>;
  close(): Promise<void>;
}
