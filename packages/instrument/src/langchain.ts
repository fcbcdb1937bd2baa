/** Captures runs of LangChain.js and LangGraph.js by a callback handler. */
import { fields, type Fields, GrowingAnswer, list, modelName, text } from '@clinical-events/protocol/spans';
import { endingOf, isPause } from './langchain-errors.js';
import { isGiven, modelsIn } from './langchain-chains.js';
import {
  type Begun,
  checkOptions,
  type InstrumentationOptions,
  ModelCall,
  type Open,
  OpenCalls,
  quietly,
  type RunsIn,
} from './model-call.js';
import { takeOutputs, takeResult, takeToken } from './readers/langchain.js';

export type { Answer, ToolCall, Usage } from '@clinical-events/protocol/spans';
export type { DescribedCall, Description, InstrumentationOptions, RunsIn, StartsRuns } from './model-call.js';

interface AskedModel extends Fields {
  readonly count: number;
  readonly extra: unknown;
  readonly model: unknown;
}

type CallDetails = [tags?: string[], metadata?: Record<string, unknown>, runName?: string];

/** The part of an answer that has arrived, and the application's abort signal. */
interface UnderWay {
  readonly answer: GrowingAnswer;
  readonly signal?: unknown;
  hasBegun?: boolean;
}

/** A chain that is not a run is kept too, to recognise what `withRetry` repeats. */
interface OpenChain extends Open {
  /** The chain that may repeat this one as a whole: it calls at most one model. */
  readonly repeatedBy?: OpenChain | undefined;
  readonly isRetry?: boolean;
}

const GRAPH_HANDLER: unique symbol = Symbol.for('langgraph.graph_callback_handler');

/**
 * A handler for the `callbacks` of a call, which everything within the call inherits. A model call becomes a
 * run, as does the outermost chain or agent, or one that a tool runs, unless it only calls one model; runs
 * within it are nested. The documents of a retriever become an artifact. Answers and errors reach the
 * application unchanged. Adds no errors of its own.
 *
 * Callbacks are own properties, because LangChain copies those; a property `name` would make it LangChain's
 * own handler.
 */
export class RunCallbackHandler {
  /** Otherwise a process may exit before its last answer is captured. */
  readonly awaitHandlers = true;
  /** LangGraph reports interrupts to handlers with this member. */
  readonly [GRAPH_HANDLER] = true;
  readonly #runs: RunsIn;
  readonly #options: InstrumentationOptions;
  readonly #open = new OpenCalls();
  readonly #underWay = new WeakMap<ModelCall, UnderWay>();
  /** Agents that wait for a person. */
  readonly #paused = new WeakSet<ModelCall>();

  /** @param runs the client, the run that the calls belong to, or a function that returns one of them. */
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
    ...details: CallDetails
  ): void => {
    quietly(() => {
      this.#beginModel({ model, messages, extra, count: list(messages[0]).length }, id, parent, details);
    });
  };

  readonly handleLLMStart = (
    model: unknown,
    prompts: readonly string[],
    id: string,
    parent?: string,
    extra?: Record<string, unknown>,
    ...details: CallDetails
  ): void => {
    quietly(() => {
      this.#beginModel({ model, prompts, extra, count: prompts.length }, id, parent, details);
    });
  };

  /** Keeps the part of an answer that arrives, in case the call fails. */
  readonly handleLLMNewToken = (
    token: unknown,
    indices: unknown,
    id: string,
    _parent?: string,
    _tags?: string[],
    more?: unknown,
  ): void => {
    quietly(() => {
      const call = this.#open.get(id)?.own;
      const underWay = call && this.#underWay.get(call);
      if (!underWay) return;
      underWay.hasBegun = true;
      takeToken(underWay.answer, token, indices, fields(more)['chunk']);
    });
  };

  readonly handleLLMEnd = (result: unknown, id: string): void => {
    const call = this.#open.end(id)?.own;
    if (!call) return;
    const { answer: grown, hasBegun = false } = this.#underWay.get(call) ?? {};
    let answer = new GrowingAnswer();
    const ending = quietly(() => takeResult(answer, fields(result), hasBegun)) ?? answer.ending ?? 'not read';
    // LangChain merges the chunks of all choices into one.
    const { id: responseId, model, usage } = answer;
    if (grown && grown.choices.length > answer.choices.length)
      answer = Object.assign(grown, { id: responseId, model, usage });
    call.end({ ending, answer });
  };

  readonly handleLLMError = (error: unknown, id: string): void => {
    this.#fail(id, error);
  };

  /** The order of arguments is LangChain's at run time, which differs from its types. */
  readonly handleChainStart = (
    chain: unknown,
    inputs: unknown,
    id: string,
    parent?: string,
    tags?: string[],
    _metadata?: Record<string, unknown>,
    _type?: string,
    name?: string,
  ): void => {
    quietly(() => {
      const outer = this.#open.get(parent);
      if (parent !== undefined && outer === undefined) return;
      const isOutermost = parent === undefined || outer?.isTool === true;
      const given = isGiven(name, chain) ? modelName(name) : undefined;
      const models = modelsIn(chain, name);
      if (isOutermost && (given !== undefined || models > 1)) {
        this.#begin(id, parent, { provider: 'langchain', model: given, request: inputs, inputs: {} });
        return;
      }
      const repeatedBy = models <= 1 ? outer : undefined;
      const open: OpenChain = { within: outer?.within, repeatedBy, isRetry: isRetry(tags) };
      this.#open.begin(id, open);
    });
  };

  readonly handleChainEnd = (outputs: unknown, id: string): void => {
    const call = this.#open.end(id)?.own;
    if (!call) return;
    const answer = new GrowingAnswer();
    quietly(() => {
      takeOutputs(answer, outputs);
    });
    const isPaused = this.#paused.has(call) || quietly(() => fields(outputs)['__interrupt__']) !== undefined;
    // The answer of the nested model is the output.
    call.end({ ending: isPaused ? 'unfinished' : 'complete', answer, worded: false });
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

  readonly handleToolError = (error: unknown, id: string): void => {
    this.#fail(id, error);
  };

  readonly handleRetrieverEnd = (documents: unknown, _id: string, parent?: string): void => {
    const within = this.#open.get(parent)?.within;
    quietly(() => within?.artifact('text_chunk', { documents: list(documents).length }));
  };

  /** Called before the end of the chain. */
  readonly handleInterrupt = (event: unknown): void => {
    const call = quietly(() => this.#open.get(text(fields(event)['runId']))?.own);
    if (call) this.#paused.add(call);
  };

  #beginModel(
    { count, ...request }: AskedModel,
    id: string,
    parent: string | undefined,
    [tags, metadata]: CallDetails,
  ): void {
    const { options, invocation_params } = fields(request.extra);
    const { id: kind, kwargs } = fields(request.model);
    const asked = fields(invocation_params);
    const names = ['model', 'model_name', 'modelName', 'model_id', 'modelId', 'deployment', 'deploymentName'];
    const given = [metadata?.['ls_model_name'], ...names.map((name) => asked[name] ?? fields(kwargs)[name])];
    const begun = {
      provider: text(metadata?.['ls_provider']) ?? 'langchain',
      // A class of the application has no other name.
      model: [...given, list(kind).at(-1)].map(modelName).find((name) => name !== undefined),
      request,
      inputs: { message_count: count, tool_count: list(asked['tools'] ?? asked['functions']).length },
    };
    const outer: OpenChain | undefined = this.#open.get(parent);
    // withRetry tags a repeated call, which is a child of the same chain.
    const before = isRetry(tags)
      ? outer?.lastModel
      : outer?.isRetry
        ? outer.repeatedBy?.lastModel
        : undefined;
    const call = this.#begin(id, parent, begun, before, fields(options)['signal']);
    for (const each of [outer, outer?.repeatedBy]) if (each) each.lastModel = call;
  }

  #begin(
    id: string,
    parent: string | undefined,
    begun: Omit<Begun, 'by'>,
    before?: ModelCall,
    signal?: unknown,
  ): ModelCall {
    const within = this.#open.get(parent)?.within;
    const by = 'langchain';
    const call = before?.beginAgain({ by, ...begun })
      ? before
      : new ModelCall(within?.run ?? this.#runs, this.#options, { by, ...begun });
    this.#underWay.set(call, { answer: new GrowingAnswer(), signal });
    this.#open.begin(id, { within: call, own: call });
    return call;
  }

  #fail(id: string, error: unknown): void {
    const open = this.#open.end(id);
    // A graph with a paused node ends as if it were complete.
    if (open?.within && quietly(() => isPause(error))) this.#paused.add(open.within);
    const underWay = open?.own && this.#underWay.get(open.own);
    const { answer, signal, hasBegun = false } = underWay ?? { answer: new GrowingAnswer() };
    const ended = quietly(() => endingOf(error, signal, hasBegun)) ?? { ending: 'failed' as const, error };
    open?.own?.end({ ...ended, answer });
  }
}

function isRetry(tags: unknown): boolean {
  return list(tags).some((tag) => /^retry:attempt:\d+$/.test(text(tag) ?? ''));
}
