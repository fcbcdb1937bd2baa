/** Captures what LangChain.js and LangGraph.js run: a callback handler. */
import { fields, type Fields, GrowingAnswer, list, text } from './answer.js';
import {
  type Begun,
  checkOptions,
  type Ended,
  type InstrumentationOptions,
  ModelCall,
  OpenCalls,
  quietly,
  type RunsIn,
} from './model-call.js';
import { takeResult } from './readers/langchain.js';

export type { Answer, ToolCall, Usage } from './answer.js';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

interface AskedModel extends Fields {
  readonly count: number;
  readonly extra: unknown;
  readonly model: unknown;
}

/** What LangChain tells of a beginning beside what begins. */
type CallDetails = [tags?: string[], metadata?: Record<string, unknown>, runName?: string];

/**
 * For the `callbacks` of a call, so that all within it inherits them. A call of a model becomes a run; so does the
 * outermost chain or agent, and one that a tool runs; what runs within is nested in it. What a retriever has found
 * becomes an artifact. The application sees what it would see without it. Does not throw.
 *
 * A plain object of callbacks: LangChain copies its own properties, so each callback is one, and takes what has a `name`
 * for a handler of its own make.
 */
export class RunCallbackHandler {
  /** Or else a process that ends after its answer could end before the answer is captured. */
  readonly awaitHandlers = true;
  readonly #runs: RunsIn;
  readonly #options: InstrumentationOptions;
  readonly #open = new OpenCalls();
  readonly #answers = new WeakMap<ModelCall, GrowingAnswer>();

  /** @param runs the client, a run that the calls belong to, or a function that gives one of them. */
  constructor(runs: RunsIn, options: InstrumentationOptions = {}) {
    this.#runs = runs;
    checkOptions(options);
    this.#options = options;
  }

  readonly handleChatModelStart = (
    model: unknown,
    messages: readonly (readonly unknown[])[],
    id: string,
    parent?: string,
    extra?: Record<string, unknown>,
    ...told: CallDetails
  ): void => {
    this.#beginModel({ model, messages, extra, count: messages[0]?.length ?? 0 }, id, parent, told);
  };

  readonly handleLLMStart = (
    model: unknown,
    prompts: readonly string[],
    id: string,
    parent?: string,
    extra?: Record<string, unknown>,
    ...told: CallDetails
  ): void => {
    this.#beginModel({ model, prompts, extra, count: prompts.length }, id, parent, told);
  };

  /** Only for a call that breaks off: how far it came. */
  readonly handleLLMNewToken = (token: unknown, _indices: unknown, id: string): void => {
    const call = this.#open.get(id)?.own;
    const answer = call && this.#answers.get(call);
    if (answer) answer.text += text(token) ?? '';
  };

  readonly handleLLMEnd = (result: unknown, id: string): void => {
    const answer = new GrowingAnswer();
    quietly(() => takeResult(answer, fields(result)));
    this.#end(id, { ending: 'complete', answer });
  };

  readonly handleLLMError = (error: unknown, id: string): void => {
    this.#fail(id, error);
  };

  /** The order of what LangChain gives, which is not the one that its types declare. */
  readonly handleChainStart = (
    chain: unknown,
    inputs: unknown,
    id: string,
    parent?: string,
    _tags?: string[],
    _metadata?: Record<string, unknown>,
    _type?: string,
    name?: string,
  ): void => {
    const outer = this.#open.get(parent);
    if (parent === undefined || outer?.isTool) {
      this.#begin(id, parent, {
        ...{ provider: 'langchain', model: name ?? text(list(fields(chain)['id']).at(-1)) },
        ...{ request: inputs, inputs: {} },
      });
    } else if (outer) this.#open.begin(id, { within: outer.within });
  };

  readonly handleChainEnd = (outputs: unknown, id: string): void => {
    const answer = new GrowingAnswer();
    quietly(() => {
      const { output, messages } = fields(outputs);
      answer.text = text(output) ?? text(fields(output ?? list(messages).at(-1) ?? outputs)['text']) ?? '';
    });
    // The answer of the model within is the output already.
    this.#end(id, { ending: 'complete', answer, worded: false });
  };

  readonly handleChainError = (error: unknown, id: string): void => {
    this.#fail(id, error);
  };

  readonly handleToolStart = (_tool: unknown, _input: string, id: string, parent?: string): void => {
    this.#open.begin(id, { within: this.#open.get(parent)?.within, isTool: true });
  };

  readonly handleToolEnd = (_output: unknown, id: string): void => {
    this.#open.end(id);
  };

  readonly handleToolError = (_error: unknown, id: string): void => {
    this.#open.end(id);
  };

  readonly handleRetrieverEnd = (documents: unknown, _id: string, parent?: string): void => {
    const within = this.#open.get(parent)?.within;
    quietly(() => within?.artifact('text_chunk', { documents: list(documents).length }));
  };

  #beginModel(
    { count, ...request }: AskedModel,
    id: string,
    parent: string | undefined,
    [tags, metadata]: CallDetails,
  ): void {
    const { ls_provider, ls_model_name } = metadata ?? {};
    const asked = fields(fields(request.extra)['invocation_params']);
    const begun = {
      provider: text(ls_provider) ?? 'langchain',
      model: text(ls_model_name) ?? text(asked['model']) ?? text(list(fields(request.model)['id']).at(-1)),
      request,
      inputs: { message_count: count, tool_count: list(asked['tools']).length },
    };
    // withRetry marks what it calls again, and calls it as a child of the same run of its own.
    const isRetry = list(tags).some((tag) => /^retry:attempt:\d+$/.test(text(tag) ?? ''));
    const outer = this.#open.get(parent);
    const call = this.#begin(id, parent, begun, isRetry ? outer?.lastModel : undefined);
    if (outer) outer.lastModel = call;
  }

  #begin(id: string, parent: string | undefined, begun: Omit<Begun, 'by'>, before?: ModelCall): ModelCall {
    const within = this.#open.get(parent)?.within;
    const by = 'langchain';
    const call = before?.goesOn({ by, ...begun })
      ? before
      : new ModelCall(within?.run ?? this.#runs, this.#options, { by, ...begun });
    this.#answers.set(call, new GrowingAnswer());
    this.#open.begin(id, { within: call, own: call });
    return call;
  }

  #end(id: string, ended: Ended): void {
    this.#open.end(id)?.own?.end(ended);
  }

  #fail(id: string, error: unknown): void {
    const call = this.#open.get(id)?.own;
    const answer = (call && this.#answers.get(call)) ?? new GrowingAnswer();
    const aborted = error instanceof Error && /^(Model)?AbortError$/.test(error.name);
    this.#end(id, { ending: aborted ? 'aborted' : 'failed', error, answer });
  }
}
