/** The questions that the main thread asks, and their answers. */
import type { FoundProof, Reading, ReportAsked, RunsAsked, RunsPage, Scope } from '../contract.js';
import type { RunPart } from './run-part.js';
import type { RunSummary } from '@clinical-events/collector/catalogue/catalogue';
import type { ReportNumbers } from '@clinical-events/report/report-numbers';

export type RunAsked = Parameters<Reading['run']>[0];
export type ProofAsked = Parameters<Reading['proof']>[0];
export type Names = Awaited<ReturnType<Reading['names']>>;

/** A run as it passes between threads: the record is text, because a copy would change exact numbers. */
export interface PassedRun {
  readonly summary: RunSummary;
  readonly record: string;
  readonly part: RunPart;
  readonly holds: readonly string[];
}

export interface Answered {
  readonly runs: { readonly asked: RunsAsked; readonly answer: RunsPage };
  readonly run: { readonly asked: RunAsked; readonly answer: PassedRun | undefined };
  readonly proof: { readonly asked: ProofAsked; readonly answer: FoundProof | undefined };
  readonly report: { readonly asked: ReportAsked; readonly answer: ReportNumbers };
  readonly names: { readonly asked: Scope; readonly answer: Names };
}

export type Kind = keyof Answered;

/** A question to a thread. */
export interface Question<Of extends Kind = Kind> {
  readonly id: number;
  readonly kind: Of;
  readonly asked: Answered[Of]['asked'];
  /** The number of entries that the catalogue must have: with fewer it is being made again. */
  readonly atLeast: number;
}

/** The answer of a thread; `refused` is the sentence for the person. */
export type Reply =
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly refused: string; readonly trouble?: string };
