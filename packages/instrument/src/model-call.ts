/**
 * Captures a model call as a run: a start, intermediate products, and one event that ends it. Nothing here
 * throws, waits, or changes an object of the application. By default no text of the request or the answer is
 * recorded, because it is patient data; `describe` chooses the content of events
 * (docs/reference/instrumentation.md).
 */
import { performance } from 'node:perf_hooks';
import type { Run, RunDetails, RunStart } from '@clinical-events/client';
import { isDroppedPromise, unknownName } from '@clinical-events/client/hostile-values';
import {
  type Answer,
  asksForTools,
  type Choice,
  fields,
  type GrowingAnswer,
  isFailureStatus,
  word,
} from '@clinical-events/protocol/spans';

/** A client, or a run in which each call becomes a nested run. */
export interface StartsRuns {
  startRun(start: RunStart, details?: RunDetails): Run;
}

/** A function is called for each call, for example to read the current run from an AsyncLocalStorage. */
export type RunsIn = StartsRuns | (() => StartsRuns);

export interface DescribedCall {
  /** The provider of the model, such as `openai`. */
  readonly provider: string;
  readonly model: string | undefined;
  /** The request in the library's form. It must not be changed. */
  readonly request: unknown;
  /** The id of the run, for later outcomes and feedback; present after the call has ended. */
  readonly runId?: string;
  /** The answer, or the part that arrived; present after the call has ended. */
  readonly answer?: Answer;
}

/** Content that is stored separately; the event has `sha256:` and its hash. */
type Content = string | Uint8Array;

export interface Description extends Pick<RunStart, 'model' | 'user' | 'target' | 'inputs'> {
  /** A UUID for the run, if the application has one already. */
  readonly runId?: string | undefined;
  readonly inputContent?: Content | undefined;
  /**
   * Fields of the output; null if the answer is not shown to a person: the run then ends with an artifact.
   */
  readonly output?: Parameters<Run['output']>[0] | null | undefined;
  /** The answer, even if it is incomplete. */
  readonly outputContent?: Content | undefined;
  readonly reasoningContent?: Content | undefined;
  /** The content and further fields of the artifact for each of the answer's `toolCalls`. */
  readonly toolCalls?: DescribedTools;
  /** The descriptions of the further choices of the answer. */
  readonly choices?: readonly DescribedChoice[] | undefined;
}

type DescribedTools = readonly { readonly content?: Content; readonly [name: string]: unknown }[];

interface DescribedChoice {
  readonly outputContent?: Content | undefined;
  readonly reasoningContent?: Content | undefined;
  readonly toolCalls?: DescribedTools;
}

export interface InstrumentationOptions {
  /**
   * Chooses the content of events. Called when the call begins, for `model`, `user`, `target`, `inputs` and
   * `runId`, and when it has ended, for the rest. If it is missing, throws or returns a promise, no text of
   * the call is recorded.
   */
  readonly describe?: ((call: DescribedCall) => Description | undefined) | undefined;
  /**
   * Whether the answer is shown to a person. Applies to complete answers with text; a function receives the
   * answer. By default, and if the function throws or does not return a boolean, an answer that requests no
   * tool counts as shown.
   */
  readonly shown?: boolean | ((call: DescribedCall) => boolean) | undefined;
}

/**
 * @param more names of further options.
 * @throws RangeError for an unknown name or a wrong value.
 */
export function checkOptions(options: InstrumentationOptions, ...more: readonly string[]): void {
  const sentence = unknownName('the options of the instrumentation', options, ['describe', 'shown', ...more]);
  if (sentence !== undefined) throw new RangeError(sentence);
  const { describe, shown } = options;
  if (!['undefined', 'boolean', 'function'].includes(typeof shown))
    throw new RangeError('shown must be true, false or a function');
  if (!['undefined', 'function'].includes(typeof describe))
    throw new RangeError('describe must be a function');
}

/**
 * How a call ended. `cut off`: the stream ended before the answer. `not read`: the answer is in an unknown
 * form, or longer than 16 Mi characters. `unfinished`: the provider reports it as queued, in progress, paused
 * or waiting for approval.
 */
type Ending = 'complete' | 'failed' | 'aborted' | 'cut off' | 'not read' | 'unfinished';

export interface Begun {
  /** The instrumentation that captured it. */
  readonly by: string;
  readonly provider: string;
  readonly model: string | undefined;
  readonly request: unknown;
  /** Facts such as counts, without words. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** Start time by performance.now(); default now. */
  readonly startedAt?: number | undefined;
  /** The number of this attempt, from 1; 1 by default. */
  readonly attempt?: number | undefined;
  /** Start time of a call that is reported later. */
  readonly timestamp?: Date | undefined;
  /** Further members of system_metadata. */
  readonly marks?: Readonly<Record<string, unknown>> | undefined;
}

export interface Ended {
  readonly ending: Ending;
  readonly answer: GrowingAnswer;
  readonly error?: unknown;
  /** The name of the failure if there is no error. */
  readonly errorName?: string | undefined;
  /** The HTTP status of a failure; by default the error's. */
  readonly status?: number | undefined;
  /** Whether the answer has words, if that is known without its text. */
  readonly worded?: boolean | undefined;
  /** The application's `shown` for this answer, instead of the option. */
  readonly shown?: boolean | undefined;
  /** Further fields of the event. */
  readonly also?: Readonly<Record<string, unknown>> | undefined;
  readonly timestamp?: Date | undefined;
  readonly latencyMs?: number | undefined;
  /** Whether the answer may be fetched later, so that this attempt ends again. */
  readonly mayEndAgain?: boolean | undefined;
}

let warned = false;

export class ModelCall {
  /** Undefined if the run could not be started. */
  readonly run: Run | undefined;
  /** The client or run in which it was started. */
  readonly within: StartsRuns | undefined;
  #begun: Begun;
  readonly #startedAt: number;
  readonly #options: InstrumentationOptions;
  #ending: Ending | undefined;
  #describeFailed = false;
  #artifacts = 0;
  /** Tool calls of an earlier end, which are not reported again. */
  #reported: ReadonlySet<string | undefined> = new Set();

  constructor(runs: RunsIn, options: InstrumentationOptions, begun: Begun) {
    this.#begun = begun;
    this.#startedAt = begun.startedAt ?? performance.now();
    this.#options = options;
    const { provider, model, inputs, timestamp } = begun;
    const said = this.#described({});
    this.within = quietly(() => startsRuns(runs));
    this.run = quietly(() =>
      this.within?.startRun(
        {
          model: { ...(model !== undefined && { model_id: model }), provider, ...said.model },
          ...(said.user && { user: said.user }),
          ...(said.target && { target: said.target }),
          inputs: { ...inputs, ...said.inputs },
        },
        { runId: said.runId, content: said.inputContent, timestamp, metadata: this.#metadata },
      ),
    );
  }

  /** How the last attempt ended; undefined while it runs. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  get attempt(): number {
    return this.#begun.attempt ?? 1;
  }

  /** Whether libraries make another attempt after such an ending. */
  get mayBeRetried(): boolean {
    return this.#ending !== undefined && this.#ending !== 'complete' && this.#ending !== 'unfinished';
  }

  /**
   * Begins another attempt of the same request within this run.
   * @returns false, without a change, if the last attempt is still running, is complete, or called another
   * model.
   */
  beginAgain(begun: Begun): boolean {
    const { provider, model } = this.#begun;
    if (!this.mayBeRetried) return false;
    if (begun.provider !== provider || begun.model !== model) return false;
    this.#begun = { attempt: this.attempt + 1, ...begun };
    this.#ending = undefined;
    return true;
  }

  /** Ends an attempt. Called once for each attempt, and again for an answer that is fetched later. */
  end(ended: Ended): void {
    quietly(() => this.#end(ended));
    this.#ending = ended.ending;
    this.#reported = new Set(ended.mayEndAgain ? ended.answer.toolCalls.map(({ id }) => id) : []);
    // A call that may be repeated is kept for a while, without its request.
    if (!ended.mayEndAgain) this.#begun = { ...this.#begun, request: undefined };
  }

  /** Records an artifact with a unique address. */
  artifact(
    type: Parameters<Run['artifact']>[0]['artifact_type'],
    fields: Readonly<Record<string, unknown>>,
    { content, latencyMs, timestamp }: { content?: Content | undefined } & Partial<Ended> = {},
  ): void {
    const { run } = this;
    if (!run) return;
    const details = { latencyMs, timestamp, metadata: this.#metadata };
    const artifact_uri = `urn:uuid:${run.id}?=artifact=${++this.#artifacts}`;
    if (content === undefined) run.artifact({ ...fields, artifact_type: type, artifact_uri }, details);
    else run.artifact({ ...fields, artifact_type: type }, { ...details, content });
  }

  #end(ended: Ended): void {
    const { ending, answer, error, timestamp, latencyMs = performance.now() - this.#startedAt } = ended;
    const { worded = answer.hasContent, status = answer.status ?? statusOf(error) } = ended;
    const { errorName = answer.errorName ?? (error === undefined ? undefined : nameOf(error)) } = ended;
    const { run } = this;
    if (!run) return;
    const shown = ending === 'complete' && worded ? this.#isShown(run.id, answer, ended.shown) : undefined;
    const said = this.#described({ runId: run.id, answer });
    const when = { latencyMs, timestamp };
    this.#steps(answer, said, when);
    for (const [at, choice] of answer.choices.slice(1).entries()) {
      const number = { choice: at + 1 };
      const described = said.choices?.[at] ?? {};
      this.#steps(choice, described, when, number);
      const description = 'Another choice of the answer.';
      const about = { description, ...number, ...choice.facts };
      this.artifact('other', about, { ...when, content: described.outputContent });
    }
    const facts = {
      ending,
      ...answer.facts,
      ...ended.also,
      ...(errorName !== undefined && { error_name: errorName }),
      ...(isFailureStatus(status) && { status }),
    };
    const content = said.outputContent;
    if (shown?.shown !== true || said.output === null) {
      const about = { description: 'How the call of the model ended.', ...facts };
      this.artifact('other', about, { ...when, content });
      return;
    }
    const output = { output_type: answer.outputType, ...facts, ...said.output };
    const metadata = { instrumentation: { ...this.#metadata.instrumentation, shown_by: shown.by } };
    const details = { ...when, metadata };
    if (content !== undefined) run.output(output, { ...details, content });
    else run.output({ output_uri: `urn:uuid:${run.id}?=output=1`, ...output }, details);
  }

  /** Records the reasoning and the tool calls of a choice. */
  #steps(
    choice: Choice,
    said: DescribedChoice,
    when: Partial<Ended>,
    number: { choice?: number } = {},
  ): void {
    if (choice.reasoning || said.reasoningContent !== undefined) {
      const about = { ...number, characters: choice.reasoning.length };
      this.artifact('reasoning_trace', about, { ...when, content: said.reasoningContent });
    }
    for (const [at, { id, name, input, invalid }] of choice.toolCalls.entries()) {
      if (id !== undefined && this.#reported.has(id)) continue;
      const { content, ...fields } = said.toolCalls?.[at] ?? {};
      const named = { tool_name: word(name), call_id: word(id), input_characters: input.length };
      const about = { ...number, ...named, ...(invalid && { invalid }), ...fields };
      this.artifact('tool_call', about, { ...when, content });
    }
  }

  get #metadata(): { readonly instrumentation: Readonly<Record<string, unknown>> } {
    const { by, marks } = this.#begun;
    const attempt = this.attempt > 1 && { attempt: this.attempt };
    const failed = this.#describeFailed && { describe_failed: true };
    return { instrumentation: { by, ...attempt, ...marks, ...failed } };
  }

  /** Whether the answer is shown to a person, and who decided that. */
  #isShown(
    runId: string,
    answer: Answer,
    given: boolean | undefined,
  ): { shown: boolean; by: 'application' | 'default' } {
    const { provider, model, request } = this.#begun;
    const { shown } = this.#options;
    const call = { provider, model, request, runId, answer };
    const said = given ?? (typeof shown === 'function' ? quietly(() => shown(call)) : shown);
    if (typeof said === 'boolean') return { shown: said, by: 'application' };
    isDroppedPromise(said);
    return { shown: !asksForTools(answer), by: 'default' };
  }

  #described(more: Pick<DescribedCall, 'runId' | 'answer'>): Description {
    const { provider, model, request } = this.#begun;
    try {
      const said = this.#options.describe?.({ provider, model, request, ...more }) ?? {};
      if (!isDroppedPromise(said)) return said;
    } catch {
      // The error is not reported: it may contain values of the call.
    }
    this.#describeFailed = true;
    if (!warned) quietly(warn);
    warned = true;
    return {};
  }
}

/** @throws TypeError for a promise. */
export function startsRuns(runs: RunsIn): StartsRuns {
  const given = typeof runs === 'function' ? runs() : runs;
  isDroppedPromise(given);
  return given;
}

/** Runs code within a call of the application, which must not see failures of this package. */
export function quietly<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch {
    return undefined;
  }
}

function warn(): void {
  process.emitWarning('describe threw or returned a promise; no words are recorded', 'ClinicalEventsWarning');
}

/** Libraries store the HTTP status of an error under one of two names. */
function statusOf(error: unknown): number | undefined {
  const { status, statusCode } = fields(error);
  return [status, statusCode].find(isFailureStatus);
}

/** Returns only the name, because messages of libraries repeat the request. */
function nameOf(error: unknown): string {
  return (error instanceof Error && word(error.name)) || 'unknown';
}

/** Beyond this number the oldest are forgotten, because a library may never end some calls. */
const MOST_OPEN = 10_000;

/** Removes the oldest entries beyond `most`. */
export function forgetOldest(map: Map<string, unknown>, most: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= most) break;
    map.delete(oldest);
  }
}

export interface Open {
  /** The innermost run, which may be its own. */
  readonly within: ModelCall | undefined;
  /** Its own run, if it is one. */
  readonly own?: ModelCall | undefined;
  readonly isTool?: boolean;
  /** The last model call directly in it. */
  lastModel?: ModelCall;
}

/** Unfinished calls and chains by a tracer's ids, so that nested ones find their run. */
export class OpenCalls<Kept = Open> {
  readonly #open = new Map<string, Kept>();

  begin(id: string, open: Kept): void {
    this.#open.set(id, open);
    forgetOldest(this.#open, MOST_OPEN);
  }

  get(id: string | undefined): Kept | undefined {
    return id === undefined ? undefined : this.#open.get(id);
  }

  end(id: string): Kept | undefined {
    const open = this.#open.get(id);
    this.#open.delete(id);
    return open;
  }
}
