/** Inputs of the pages about runs. Those of the pages around a login are in people/page-types.ts. */
import type { ReportNumbers } from '@clinical-events/report/report-numbers';
import type { FoundProof, FoundRun, ReadingState, RunsPage } from '../contract.js';
import type { Admitted } from '../people/register.js';

/** The frame of every page of a role. */
export interface Frame extends Admitted {
  readonly state: ReadingState;
}

export interface RunsShown extends Frame {
  /** The members of the form as sent; `target` and `user` only after a POST. */
  readonly form: Readonly<Record<string, string>>;
  /** The fault of the form; there is no list then. */
  readonly problem: string | undefined;
  readonly names: {
    readonly organisations: readonly string[];
    readonly applications: readonly string[];
    readonly models: readonly string[];
  };
  /** Whether the role may look up a patient or a caller. */
  readonly mayNamePersons: boolean;
  readonly list: RunsPage | undefined;
  /** From 1. */
  readonly page: number;
}

export interface RunShown extends Frame {
  readonly run: FoundRun;
  /** False for an auditor. */
  readonly withContents: boolean;
}

export interface ProofShown extends Frame {
  readonly proof: FoundProof;
  readonly organisation: string;
}

export interface ReportShown extends Frame {
  readonly form: Readonly<Record<string, string>>;
  readonly problem: string | undefined;
  readonly names: RunsShown['names'];
  /** Undefined for the form alone. */
  readonly numbers: ReportNumbers | undefined;
}

/** A page, with the headers that it needs in place of the common ones, such as another CSP. */
export interface MadePage {
  readonly html: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A refusal within a role: not found, not permitted, not readable now, look not recorded. */
export interface RefusalShown extends Frame {
  readonly title: string;
  readonly sentences: readonly string[];
}

/** Each returns a whole page. The query of a report that is shown has the member `show`. */
export interface LogPages {
  runs(shown: RunsShown): MadePage;
  run(shown: RunShown): MadePage;
  proof(shown: ProofShown): MadePage;
  report(shown: ReportShown): MadePage;
  refusal(shown: RefusalShown): MadePage;
}
