/** What every dialect of spans is given, and what it fills. */
import { countOf, type Fields, GrowingAnswer } from './answer.js';

export interface SpanData {
  readonly name: string;
  readonly attributes: Fields;
  readonly events?:
    readonly { readonly name: string; readonly attributes?: Fields | undefined }[] | undefined;
  /** 2 says that what the span is of has failed. */
  readonly status: { readonly code?: number | undefined };
  /** The name of the library that has written it. */
  readonly scope?: string | undefined;
  readonly droppedAttributesCount?: number | undefined;
}

export type Kind = 'model' | 'agent' | 'tool' | 'retrieval' | 'evaluation';

export interface Document {
  readonly id: unknown;
  readonly score: unknown;
  readonly text: string | undefined;
}

interface Evaluation {
  readonly name: unknown;
  readonly score?: unknown;
  readonly label?: unknown;
  readonly explanation?: unknown;
  /** What `clinical_events.evaluator.type` says of it. */
  readonly by?: unknown;
}

/** What the dialects fill, each what it knows by a name of its own. */
export class Findings {
  readonly answer = new GrowingAnswer();
  /** Whether the span carries an answer; most carry words only where the application has said so. */
  answered = false;
  ending: 'aborted' | 'cut off' | undefined;
  tool: { name?: unknown; id?: unknown } = {};
  documents: readonly Document[] = [];
  readonly evaluations: Evaluation[] = [];
  errorName: string | undefined;
  failed = false;
  /** Of an agent: the sum of its models. */
  usageOfAll: GrowingAnswer['usage'] | undefined;

  /** Counts that are not known yet. `apart`: the input is what came from no cache. */
  count(counts: Readonly<Record<string, unknown>>, apart = false): void {
    const { usage } = this.answer;
    if (Object.values(counts).every((count) => count === undefined)) return;
    const numbers = Object.entries(counts).map(([name, count]) => [name, countOf(count)] as const);
    const { input, cacheRead = 0, cacheCreation = 0, ...others } = Object.fromEntries(numbers);
    const cached = cacheRead + cacheCreation;
    const all = input !== undefined && (apart || cached > input) ? input + cached : input;
    const given = new GrowingAnswer();
    given.count({ ...counts, ...others, input: all });
    this.answer.usage = { ...given.usage, ...usage };
  }
}

export interface Dialect {
  /** What the span is, a reason why it is nothing, or undefined when this dialect does not know it. */
  kindOf(span: SpanData, isRoot: boolean): Kind | { readonly reason: string } | undefined;
  /** What is not found yet. */
  find(span: SpanData, kind: Kind, into: Findings): void;
}
