/** What every dialect of spans is given, and what it fills. */
import type { Fields } from '../objects.js';
import { countOf, GrowingAnswer, sum } from './answer.js';

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
  /** The emitter names the reason of an ending, and names none here. */
  isOpen = false;
  /** Of an agent: the sum of its models. */
  usageOfAll: GrowingAnswer['usage'] | undefined;

  /** Of a model: whether there are words that were not captured. A filter may have stopped all of them. */
  get isUnseen(): boolean {
    return !this.answered && !/^content[-_]filter$/.test(this.answer.finishReason ?? '');
  }

  /** Counts that are not known yet. `apart`: the input is what came from no cache. */
  count(counts: Readonly<Record<string, unknown>>, apart = false): void {
    const { input, output, cacheRead, cacheCreation, reasoning } = counts;
    if ((input ?? output ?? cacheRead ?? cacheCreation ?? reasoning) === undefined) return;
    const { usage } = this.answer;
    const given = countOf(input);
    const cached = sum(cacheRead, cacheCreation);
    const all = given !== undefined && (apart || cached > given) ? given + cached : given;
    this.answer.count({
      ...{ input: all, output: countOf(output), reasoning: countOf(reasoning) },
      ...{ cacheRead: countOf(cacheRead), cacheCreation: countOf(cacheCreation) },
    });
    this.answer.usage = { ...this.answer.usage, ...usage };
  }
}

export interface Dialect {
  /** What the span is, a reason why it is nothing, or undefined when this dialect does not know it. */
  kindOf(span: SpanData, isRoot: boolean): Kind | { readonly reason: string } | undefined;
  /** What is not found yet. */
  find(span: SpanData, kind: Kind, into: Findings): void;
}
