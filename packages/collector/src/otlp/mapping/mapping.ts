/**
 * Maps one span to events. The result depends on the span, its resource and its scope alone, so the order and
 * batching of spans do not matter (docs/reference/otlp.md, "Mapping"). Does not throw.
 */
import type { EventKind } from '@clinical-events/protocol';
import {
  asksForTools,
  askedOf,
  type Choice,
  executedOf,
  type Findings,
  findingsOf,
  firstName,
  identify,
  type Kind,
  type Known,
  nameOf,
  parsedContent,
  queryOf,
  userOf,
} from '@clinical-events/protocol/spans';
import type { DecodedSpan } from '../decoded.js';
import { type Evaluation, evaluated, scoreOf } from './evaluations.js';
import { spanEventId } from './ids.js';
import { type Draft, makeEvent, type MadeEvent } from './made-event.js';
import { instant, originOf, timestampOf } from './origin.js';
import { type Mapped, type MappingOptions, none, reasonOf } from './mapped.js';

export { eventsOfLog } from './logs.js';
export type { MadeEvent } from './made-event.js';
export type { Mapped, MappingOptions } from './mapped.js';

type Members = Readonly<Record<string, unknown>>;

const MOST_ARTIFACTS = 4096;
/** A query longer than this is only in the first event of its documents; the other events refer to it. */
const LONG_QUERY = 1024;
const INT32_MAX = 2 ** 31 - 1;
const NAMES = {
  'inference-start': 'inputs',
  'internal-artifact': 'artifact',
  'human-output': 'output',
  outcome: 'outcome',
  'user-feedback': 'feedback',
} as const satisfies Record<EventKind, string>;

export function eventsOfSpan(span: DecodedSpan, options: MappingOptions): Mapped {
  if (span.traceId === '') return none('no_trace_id');
  if (span.spanId === '') return none('no_span_id');
  const known = identify(span, span.parentSpanId === '', true);
  const isEvaluated = span.events.some(({ name }) => name === 'gen_ai.evaluation.result');
  const kind = known.kind ?? (isEvaluated ? 'evaluation' : undefined);
  if (kind === undefined) return none(reasonOf(span, known.kind === undefined ? known.cause : ''));
  const found = findingsOf(span, kind);
  const events = new SpanEvents(span, options, known.kind === undefined ? undefined : known);
  if (kind === 'model' || kind === 'agent') events.call(known as Known, found);
  else events.step(kind, found);
  return events.made.length > 0 ? { events: events.made } : none('no_documents');
}

interface Artifact {
  readonly kind: EventKind;
  readonly members: Members;
}

class SpanEvents {
  readonly made: MadeEvent[] = [];
  readonly #span: DecodedSpan;
  readonly #options: MappingOptions;
  readonly #origin: ReturnType<typeof originOf>;
  readonly #times: ReturnType<typeof timesOf>;
  #leftOut = 0;
  #parentId: string | undefined;

  constructor(span: DecodedSpan, options: MappingOptions, known: Known | undefined) {
    this.#span = span;
    this.#options = options;
    this.#times = timesOf(span);
    this.#origin = originOf(span, options.organisation, {
      parent_span_id: span.parentSpanId || undefined,
      parent_is_remote: span.parentSpanId === '' ? undefined : span.isParentRemote,
      conversation_id: known?.conversation,
      agent_name: known?.agentName,
      agent_model: known?.agentModel,
      times: this.#times.fault,
    });
  }

  /** A call of a model or agent: its start, intermediate results and end. */
  call(known: Known, found: Findings): void {
    const { answer } = found;
    this.#start(known);
    const [first, ...others] = answer.choices;
    // The intermediate results of an agent's model are in the model's own span.
    const steps =
      known.kind === 'agent'
        ? []
        : [
            ...stepsOf(first as Choice),
            ...others.flatMap((choice, at) => [...stepsOf(choice, at + 1), anotherOf(choice, at + 1)]),
          ];
    this.#artifacts([...steps, ...found.evaluations.map((each) => this.#evaluation(each))]);
    this.#end(known.kind, found);
  }

  /** A span that is not a call: its events belong to the run. */
  step(kind: Kind, found: Findings): void {
    const failure = found.failed && { error_name: found.errorName ?? 'unknown' };
    if (kind === 'tool') {
      const { tool } = found;
      const named = { tool_name: nameOf(tool.name), call_id: nameOf(tool.id), executed: true };
      const members = { artifact_type: 'tool_call', ...named, ...failure, ...executedOf(this.#span) };
      this.#artifacts([{ kind: 'internal-artifact', members }]);
    } else if (kind === 'retrieval') this.#documents(found, failure || {});
    else {
      if (found.evaluations.length === 0) found.evaluations.push({ name: this.#span.name });
      this.#artifacts(found.evaluations.map((each) => this.#evaluation(each, failure || {})));
    }
    if (this.#shown !== true || found.failed) return;
    const { result } = kind === 'tool' ? executedOf(this.#span) : {};
    const summary = typeof result === 'string' ? result : JSON.stringify(result);
    this.#output({ output_type: 'text', summary }, 'application');
  }

  #start({ provider, model, operation, streamed }: Known): void {
    const { attributes, resource } = this.#span;
    const { question, messages, instructions, parameters, tools } = askedOf(this.#span);
    const user = userOf(attributes) ?? userOf(resource);
    const identity = (of: string) =>
      firstName(attributes, `clinical_events.${of}`) ?? firstName(resource, `clinical_events.${of}`);
    const [userType, target, targetType] = ['user.type', 'target.id', 'target.type'].map(identity);
    const eventId = this.#eventId('inference-start', 0);
    this.#add('inference-start', eventId, this.#times.start, {
      model_instance: { model_id: nameOf(model), provider: nameOf(provider) },
      user_identity:
        user === undefined && userType === undefined ? undefined : { caller_id: user, caller_type: userType },
      target_identity:
        target === undefined && targetType === undefined
          ? undefined
          : { target_id: target, target_type: targetType },
      inputs: {
        ...{ operation, streamed, ...parameters },
        ...(tools.length > 0 && { tools }),
        ...{ prompt: question, system_instructions: instructions, messages },
      },
    });
    this.#parentId = eventId;
  }

  #end(kind: Kind, found: Findings): void {
    const { answer, failed, errorName, usageOfAll } = found;
    const { droppedAttributesCount: dropped } = this.#span;
    const isLost = !found.answered && dropped > 0;
    const ending = found.ending ?? (failed ? 'failed' : isLost ? 'not read' : 'complete');
    const facts = {
      ending,
      ...answer.facts,
      usage_of_all: usageOfAll,
      error_name: failed ? (errorName ?? 'unknown') : undefined,
      status: answer.status,
    };
    const words = answer.text === '' ? undefined : answer.text;
    const isWorded = answer.hasContent || (kind === 'model' && found.isUnseen);
    const isWhole = ending === 'complete' && dropped === 0 && isWorded && !asksForTools(answer);
    const isDefault = this.#options.shown === 'default' && kind === 'model' && this.#shown === undefined;
    const isMarked = this.#shown === true && (ending === 'complete' || answer.hasContent);
    if (isMarked || (isDefault && isWhole)) {
      const output = { output_type: answer.outputType, ...facts, summary: words };
      this.#output(output, isMarked ? 'application' : 'default');
      return;
    }
    const description = 'How the call of the model ended.';
    const members = { artifact_type: 'other', description, ...facts, text: words };
    // No other artifact has this ordinal.
    this.#artifact({ kind: 'internal-artifact', members }, 0);
  }

  #documents({ documents }: Findings, failure: Members): void {
    const query = queryOf(this.#span);
    const isLong = (query?.length ?? 0) > LONG_QUERY;
    const firstId = isLong ? this.#eventId('internal-artifact', 1) : undefined;
    this.#artifacts(
      documents.map(({ id, score, text }, at) => {
        const about = { document_id: nameOf(id), score: scoreOf(score), characters: text?.length ?? 0 };
        const asked = isLong && at > 0 ? { query_in: firstId } : { query };
        const members = { artifact_type: 'text_chunk', ...about, ...failure, ...asked, text };
        return { kind: 'internal-artifact', members };
      }),
    );
  }

  #evaluation(found: Evaluation, failure: Members = {}): Artifact {
    const by = found.by ?? this.#span.attributes['clinical_events.evaluator.type'];
    const { kind, members } = evaluated({ ...found, by }, this.#options.outcomes);
    return { kind, members: { ...members, ...failure } };
  }

  /**
   * The application's statement that a person saw the output; a value that was copied from baggage is a
   * string.
   */
  get #shown(): boolean | undefined {
    const said = this.#span.attributes['clinical_events.shown'];
    if (said === 'true' || said === 'false') return said === 'true';
    return typeof said === 'boolean' ? said : undefined;
  }

  #artifacts(artifacts: readonly Artifact[]): void {
    this.#leftOut = Math.max(0, artifacts.length - MOST_ARTIFACTS);
    const ordinals = new Map<EventKind, number>();
    for (const artifact of artifacts.slice(0, MOST_ARTIFACTS)) {
      const ordinal = (ordinals.get(artifact.kind) ?? 0) + 1;
      ordinals.set(artifact.kind, ordinal);
      this.#artifact(artifact, ordinal);
    }
  }

  #artifact({ kind, members }: Artifact, ordinal: number): void {
    const name = NAMES[kind];
    const eventId = this.#eventId(kind, ordinal);
    const uri = name === 'artifact' ? { artifact_uri: `urn:uuid:${eventId}` } : {};
    this.#add(kind, eventId, this.#times.end, { [name]: { ...uri, ...members } });
  }

  #output(members: Members, shownBy: 'application' | 'default'): void {
    const eventId = this.#eventId('human-output', 0);
    const output = { output_uri: `urn:uuid:${eventId}`, ...members };
    this.#add('human-output', eventId, this.#times.end, { output }, { shown_by: shownBy });
  }

  #eventId(kind: EventKind, ordinal: number): string {
    return spanEventId(this.#options.organisation, this.#span, kind, ordinal);
  }

  #add(
    kind: EventKind,
    eventId: string,
    timestamp: string,
    payload: Readonly<Record<string, Members | undefined>>,
    more?: Members,
  ): void {
    const { runId, source, instrumentation } = this.#origin;
    const said = this.#leftOut > 0 ? { left_out: this.#leftOut, ...more } : more;
    const draft: Draft = {
      kind,
      eventId,
      runId,
      parentId: this.#parentId,
      timestamp,
      latencyMs: kind === 'inference-start' ? undefined : this.#times.latencyMs,
      source,
      instrumentation: said === undefined ? instrumentation : { ...instrumentation, ...said },
      payload,
    };
    this.made.push(makeEvent(draft, this.#options.maxEventBytes));
  }
}

/** The intermediate results of one choice. */
function stepsOf({ reasoning, toolCalls }: Choice, number?: number): Artifact[] {
  const choice = number === undefined ? {} : { choice: number };
  const artifacts = toolCalls.map(({ id, name, input, invalid }) => {
    const named = { tool_name: nameOf(name), call_id: nameOf(id), input_characters: input.length };
    return {
      artifact_type: 'tool_call',
      ...choice,
      ...named,
      ...(invalid && { invalid }),
      input: parsedContent(input),
    };
  });
  const reasoned = { artifact_type: 'reasoning_trace', ...choice, characters: reasoning.length };
  const all: Members[] = reasoning === '' ? artifacts : [{ ...reasoned, text: reasoning }, ...artifacts];
  return all.map((members) => ({ kind: 'internal-artifact', members }));
}

function anotherOf(choice: Choice & { readonly facts?: Members }, number: number): Artifact {
  const about = { artifact_type: 'other', description: 'Another choice of the answer.', choice: number };
  const text = choice.text === '' ? undefined : choice.text;
  return { kind: 'internal-artifact', members: { ...about, ...choice.facts, text } };
}

/**
 * The times of a span. A missing time is replaced with the other one, or with 1970 if both are missing; a
 * span that ends before it begins keeps both. In each of these cases there is no latency, and `fault` names
 * the case.
 */
function timesOf({ start: from, end: to }: DecodedSpan) {
  const [start, end] = [instant(from), instant(to)];
  const latency = start === undefined || end === undefined ? -1 : Math.round(Number(end - start) / 1e6);
  const isReversed = start !== undefined && end !== undefined && end < start;
  const missing = start === undefined ? (end === undefined ? 'none' : 'no start') : 'no end';
  return {
    start: timestampOf(start ?? end ?? 0n),
    end: timestampOf(end ?? start ?? 0n),
    latencyMs: !isReversed && latency >= 0 && latency <= INT32_MAX ? latency : undefined,
    fault: isReversed ? 'reversed' : start === undefined || end === undefined ? missing : undefined,
  };
}
