/**
 * A call of a model that a library makes, turned into a run: start, what the model made on its way, and one event that
 * ends it. Nothing here throws, waits, or changes an object that the application holds. By itself it records no word
 * of what was asked or answered, for those are patient data: the application chooses by `describe` what goes into
 * events (docs/CLIENT_SPEC.md, "Instrumentation").
 */
import { isDroppedPromise } from '../dropped-promise.js';
import type { Run, RunDetails, RunStart } from '../index.js';
import { word, type Answer } from './answer.js';

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
  readonly toolCalls?: readonly { readonly content?: Content; readonly [name: string]: unknown }[];
}

export interface InstrumentationOptions {
  /**
   * Chooses what goes into events. Asked twice: when the call begins, for `model`, `user`, `target`, `inputs` and
   * `runId`; when it has ended, for the rest. Without it, and when it throws or returns a promise, no word of the call is recorded.
   */
  readonly describe?: ((call: DescribedCall) => Description | undefined) | undefined;
}

/**
 * How a call ended. `cut off`: the stream was over before the answer was. `not read`: it was not in a form that can be
 * read here, or larger than 16 Mi characters.
 */
type Ending = 'complete' | 'failed' | 'aborted' | 'cut off' | 'not read';

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
  /** When it began, for a call that is told later. */
  readonly timestamp?: Date | undefined;
  /** What system_metadata says beside who captured it. */
  readonly marks?: Readonly<Record<string, unknown>> | undefined;
}

export interface Ended {
  readonly ending: Ending;
  readonly answer: Answer;
  readonly error?: unknown;
  /** The status of HTTP, of a call that failed by it. */
  readonly status?: number | undefined;
  /** Whether there was anything to show, where that is known without the text. */
  readonly shown?: boolean | undefined;
  readonly timestamp?: Date | undefined;
  readonly latencyMs?: number | undefined;
}

const INT32_MAX = 2 ** 31 - 1;
let warned = false;

export class ModelCall {
  /** Undefined when not even the run could be started. */
  readonly run: Run | undefined;
  readonly #begun: Begun;
  readonly #startedAt: number;
  readonly #describe: InstrumentationOptions['describe'];
  #describeFailed = false;
  #artifacts = 0;

  /** The model is called. */
  constructor(runs: RunsIn, { describe }: InstrumentationOptions, begun: Begun) {
    this.#begun = begun;
    this.#startedAt = begun.startedAt ?? performance.now();
    this.#describe = describe;
    const { provider, model, inputs, timestamp } = begun;
    const said = this.#described({});
    this.run = quietly(() =>
      startsRuns(runs).startRun(
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

  /** The answer is there, or will not come. To be called once. */
  end(ended: Ended): void {
    quietly(() => this.#end(ended));
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
    const { ending, answer, error, status, timestamp, latencyMs = this.#latency() } = ended;
    const { shown = answer.text !== '' } = ended;
    const { run } = this;
    if (!run) return;
    const said = this.#described({ runId: run.id, answer });
    const when = { latencyMs, timestamp };
    if (answer.reasoning || said.reasoningContent !== undefined) {
      const content = said.reasoningContent;
      this.artifact('reasoning_trace', { characters: answer.reasoning.length }, { ...when, content });
    }
    for (const [at, { id, name, input }] of answer.toolCalls.entries()) {
      const { content, ...fields } = said.toolCalls?.[at] ?? {};
      const named = { tool_name: word(name), call_id: word(id), input_characters: input.length };
      this.artifact('tool_call', { ...named, ...fields }, { ...when, content });
    }
    const facts = {
      ending,
      ...answer.facts,
      ...(error !== undefined && { error_name: nameOf(error) }),
      ...(status !== undefined && { status }),
    };
    const content = said.outputContent;
    if (ending !== 'complete' || !shown || said.output === null) {
      this.artifact(
        'other',
        { description: 'How the call of the model ended.', ...facts },
        { ...when, content },
      );
      return;
    }
    const output = { output_type: 'text', ...facts, ...said.output };
    const details = { ...when, metadata: this.#metadata };
    if (content !== undefined) run.output(output, { ...details, content });
    else run.output({ output_uri: `urn:uuid:${run.id}?=output=1`, ...output }, details);
  }

  #latency(): number {
    return Math.min(INT32_MAX, Math.max(0, Math.round(performance.now() - this.#startedAt)));
  }

  get #metadata(): { readonly instrumentation: Readonly<Record<string, unknown>> } {
    const { by, marks } = this.#begun;
    const failed = this.#describeFailed && { describe_failed: true };
    return { instrumentation: { by, ...marks, ...failed } };
  }

  #described(more: Pick<DescribedCall, 'runId' | 'answer'>): Description {
    const { provider, model, request } = this.#begun;
    try {
      const said = this.#describe?.({ provider, model, request, ...more }) ?? {};
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
function startsRuns(runs: RunsIn): StartsRuns {
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

/** The name alone: messages of libraries repeat what was asked. */
function nameOf(error: unknown): string {
  return (error instanceof Error && word(error.name)) || 'unknown';
}
