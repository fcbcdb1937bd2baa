/** The input and output that all dialects of spans share. */
import type { Fields } from '../values.js';
import { countOf, GrowingAnswer, sum } from './answer.js';

export interface SpanData {
  readonly name: string;
  readonly attributes: Fields;
  readonly events?:
    readonly { readonly name: string; readonly attributes?: Fields | undefined }[] | undefined;
  /** 2 means that the operation has failed. */
  readonly status: { readonly code?: number | undefined };
  /** The name of the instrumentation library. */
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
  /** The value of `clinical_events.evaluator.type`. */
  readonly by?: unknown;
}

/** The findings, which each dialect completes from its own attributes. */
export class Findings {
  readonly answer = new GrowingAnswer();
  /**
   * Whether the span contains an answer; most spans contain words only if the application has enabled that.
   */
  answered = false;
  ending: 'aborted' | 'cut off' | undefined;
  tool: { name?: unknown; id?: unknown } = {};
  documents: readonly Document[] = [];
  readonly evaluations: Evaluation[] = [];
  errorName: string | undefined;
  failed = false;
  /** Whether the emitter usually states why an answer ended, but did not do so in this span. */
  isOpen = false;
  /** For an agent: the sum over its models. */
  usageOfAll: GrowingAnswer['usage'] | undefined;

  /** For a model: whether there are words that were not captured. A filter may have stopped all of them. */
  get isUnseen(): boolean {
    return !this.answered && !/^content[-_]filter$/.test(this.answer.finishReason ?? '');
  }

  /** Sets counts that are still unknown. `apart`: the input count excludes cached input. */
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
  /** The kind of span, a reason to ignore it, or undefined when this dialect does not know it. */
  kindOf(span: SpanData, isRoot: boolean): Kind | { readonly reason: string } | undefined;
  /** Adds missing findings. */
  find(span: SpanData, kind: Kind, into: Findings): void;
}
