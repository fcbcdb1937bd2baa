/**
 * A call of a model that a library makes, turned into a run: start, what the model made on its way, and one event that
 * ends it. Nothing here throws, waits, or changes an object that the application holds. By itself it records no word
 * of what was asked or answered, for those are patient data: the application chooses by `describe` what goes into
 * events (docs/reference/instrumentation.md).
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

/** A client, or a run: then each call becomes a run nested in it. */
export interface StartsRuns {
  startRun(start: RunStart, details?: RunDetails): Run;
}

/** A function is asked at each call. It is the place for an AsyncLocalStorage that knows the run of the moment. */
export type RunsIn = StartsRuns | (() => StartsRuns);

export interface DescribedCall {
  /** Whose library it is that made the call: `openai`, say. */
  readonly provider: string;
  readonly model: string | undefined;
  /** What the model was asked, as the library says it. Not to be changed. */
  readonly request: unknown;
  /** Once the call has ended: the run, by whose id outcomes and feedback can be told later. */
  readonly runId?: string;
  /** Once the call has ended: what the model has answered, as far as it came. */
  readonly answer?: Answer;
}

/** What is stored by itself; the event says `sha256:` and its hash. */
type Content = string | Uint8Array;

export interface Description extends Pick<RunStart, 'model' | 'user' | 'target' | 'inputs'> {
  /** The id of the run, when the application has one already: a UUID. */
  readonly runId?: string | undefined;
  readonly inputContent?: Content | undefined;
  /** Fields of the output. Null when the answer is not shown to a person: then the run ends with an artifact. */
  readonly output?: Parameters<Run['output']>[0] | null | undefined;
  /** The answer, also one that broke off. */
  readonly outputContent?: Content | undefined;
  readonly reasoningContent?: Content | undefined;
  /** For each of the answer's `toolCalls`, in their order: what the tool was asked, and more fields of the artifact. */
  readonly toolCalls?: DescribedTools;
  /** For each further choice of the answer, in their order. */
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
   * Chooses what goes into events. Asked twice: when the call begins, for `model`, `user`, `target`, `inputs` and
   * `runId`; when it has ended, for the rest. Without it, and when it throws or returns a promise, no word of the call is recorded.
   */
  readonly describe?: ((call: DescribedCall) => Description | undefined) | undefined;
  /**
   * Whether a person is shown the answer. Applies to an answer that is complete and has words; a function is asked with
   * that answer. By default an answer that asks for no tool is shown. Also by default when the function throws or
   * returns no boolean.
   */
  readonly shown?: boolean | ((call: DescribedCall) => boolean) | undefined;
}

/**
 * On return the options are those of an instrumentation.
 * @param more names that this one has besides.
 * @throws RangeError for a name that none has, and a value that an option cannot have.
 */
export function checkOptions(options: InstrumentationOptions, ...more: readonly string[]): void {
  const sentence = unknownName('the options of the instrumentation', options, ['describe', 'shown', ...more]);
  if (sentence !== undefined) throw new RangeError(sentence);
  const { describe, shown } = options;
  if (!['undefined', 'boolean', 'function'].includes(typeof shown))
    throw new RangeError('shown is true, false or a function');
  if (!['undefined', 'function'].includes(typeof describe)) throw new RangeError('describe is a function');
}

/**
 * How a call ended. `cut off`: the stream was over before the answer was. `not read`: it was not in a form that can be
 * read here, or larger than 16 Mi characters. `unfinished`: the provider says that it is queued, in progress, paused, or
 * waits for an approval.
 */
type Ending = 'complete' | 'failed' | 'aborted' | 'cut off' | 'not read' | 'unfinished';

export interface Begun {
  /** Which instrumentation has seen it. */
  readonly by: string;
  readonly provider: string;
  readonly model: string | undefined;
  readonly request: unknown;
  /** Counts and the like, without words. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** performance.now() when the call began; now when it is not given. */
  readonly startedAt?: number | undefined;
  /** The number of this attempt, from 1 on; 1 when it is not given. */
  readonly attempt?: number | undefined;
  /** When it began, for a call that is reported later. */
  readonly timestamp?: Date | undefined;
  /** What system_metadata says beside who captured it. */
  readonly marks?: Readonly<Record<string, unknown>> | undefined;
}

export interface Ended {
  readonly ending: Ending;
  readonly answer: GrowingAnswer;
  readonly error?: unknown;
  /** What the failure is called, where there is no error to ask. */
  readonly errorName?: string | undefined;
  /** The status of HTTP, of a call that failed by it; asked of the error when it is not given. */
  readonly status?: number | undefined;
  /** Whether the answer has words, where that is known without the text. */
  readonly worded?: boolean | undefined;
  /** What the application has said of this answer, in place of the option. */
  readonly shown?: boolean | undefined;
  /** More that the event says. */
  readonly also?: Readonly<Record<string, unknown>> | undefined;
  readonly timestamp?: Date | undefined;
  readonly latencyMs?: number | undefined;
  /** Whether the answer may be fetched later: then this attempt ends once more. */
  readonly mayEndAgain?: boolean | undefined;
}

let warned = false;

export class ModelCall {
  /** Undefined when not even the run could be started. */
  readonly run: Run | undefined;
  /** What it was started in. */
  readonly within: StartsRuns | undefined;
  #begun: Begun;
  readonly #startedAt: number;
  readonly #options: InstrumentationOptions;
  #ending: Ending | undefined;
  #describeFailed = false;
  #artifacts = 0;
  /** Tool calls of an end that was not the last: they are not told again. */
  #told: ReadonlySet<string | undefined> = new Set();

  /** The model is called. */
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

  /** How the last attempt ended; undefined while it is under way. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  get attempt(): number {
    return this.#begun.attempt ?? 1;
  }

  /** Whether the last attempt has ended so that libraries make another. */
  get mayBeRetried(): boolean {
    return this.#ending !== undefined && this.#ending !== 'complete' && this.#ending !== 'unfinished';
  }

  /**
   * The same request is made once more: what follows is of this run, if the attempt before has failed.
   * @returns false, and changes nothing, when it is under way or complete, or was a call of another model.
   */
  beginAgain(begun: Begun): boolean {
    const { provider, model } = this.#begun;
    if (!this.mayBeRetried) return false;
    if (begun.provider !== provider || begun.model !== model) return false;
    this.#begun = { attempt: this.attempt + 1, ...begun };
    this.#ending = undefined;
    return true;
  }

  /** The answer is there, or will not come. To be called once an attempt, and again for what is fetched later. */
  end(ended: Ended): void {
    quietly(() => this.#end(ended));
    this.#ending = ended.ending;
    this.#told = new Set(ended.mayEndAgain ? ended.answer.toolCalls.map(({ id }) => id) : []);
    // A call that may be repeated is kept for a while; what was asked need not be.
    if (!ended.mayEndAgain) this.#begun = { ...this.#begun, request: undefined };
  }

  /** A product of the run, under a name that only this run has. */
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
      const told = said.choices?.[at] ?? {};
      this.#steps(choice, told, when, number);
      const description = 'Another choice of the answer.';
      const about = { description, ...number, ...choice.facts };
      this.artifact('other', about, { ...when, content: told.outputContent });
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

  /** What the model made on its way to a choice. */
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
      if (id !== undefined && this.#told.has(id)) continue;
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

  /** Whether a person is shown the answer, and whether the application has said so. */
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
      // Not the error itself: it may name values of the call.
    }
    this.#describeFailed = true;
    if (!warned) quietly(warn);
    warned = true;
    return {};
  }
}

/** @throws TypeError for a promise, which starts no runs. */
export function startsRuns(runs: RunsIn): StartsRuns {
  const given = typeof runs === 'function' ? runs() : runs;
  isDroppedPromise(given);
  return given;
}

/** For all that runs within a call of the application's: what goes wrong here is none of its business. */
export function quietly<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch {
    return undefined;
  }
}

function warn(): void {
  process.emitWarning(
    'describe has thrown or returned a promise; no words are recorded',
    'ClinicalEventsWarning',
  );
}

/** The status of HTTP that errors of the libraries have under one of two names. */
function statusOf(error: unknown): number | undefined {
  const { status, statusCode } = fields(error);
  return [status, statusCode].find(isFailureStatus);
}

/** The name alone: messages of libraries repeat what was asked. */
function nameOf(error: unknown): string {
  return (error instanceof Error && word(error.name)) || 'unknown';
}

/* What is under way, by the ids that a tracer gives to it, so that what begins within finds the run that it is in. */

/** Beyond this number the oldest are forgotten: a library that never ends what it began must not fill the memory. */
const MOST_OPEN = 10_000;

/** On return the map has as many entries at most: the oldest are gone. */
export function forgetOldest(map: Map<string, unknown>, most: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= most) break;
    map.delete(oldest);
  }
}

export interface Open {
  /** The innermost run that this is in, or is. */
  readonly within: ModelCall | undefined;
  /** When it becomes a run itself. */
  readonly own?: ModelCall | undefined;
  readonly isTool?: boolean;
  /** The model that was called last directly in it. */
  lastModel?: ModelCall;
}

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
