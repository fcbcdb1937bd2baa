/** The events of a recording in the form of `received.json`: one entry for each trace, as a person draws it. */
import type { Decoded } from '../../../src/otlp/decoded.js';
import {
  eventsOfLog,
  eventsOfSpan,
  type MadeEvent,
  type MappingOptions,
} from '../../../src/otlp/mapping/mapping.js';
import type { Recorded } from './recorded.js';

type Members = Readonly<Record<string, unknown>>;

export interface Event extends Members {
  readonly kind: string;
  readonly event_id: string;
  readonly run_id: string;
  readonly parent_event_id?: string;
  readonly timestamp: string;
  readonly system_metadata: Members & { readonly instrumentation: Members };
  readonly model_instance?: Members;
  readonly user_identity?: Members;
  readonly target_identity?: Members;
  readonly inputs?: Members;
  readonly artifact?: Members;
  readonly output?: Members;
  readonly feedback?: Members;
  readonly outcome?: Members;
}

export const OPTIONS: MappingOptions = {
  organisation: 'ward',
  shown: 'default',
  outcomes: new Set(),
  maxEventBytes: 1 << 20,
};

/** With its kind as a member. */
export function eventOf({ kind, body }: MadeEvent): Event {
  return { ...(JSON.parse(body.toString()) as Event), kind };
}

export interface Made {
  readonly of: Decoded;
  readonly at: bigint;
  /** Of log records after spans. */
  readonly order: number;
  readonly reason: string | undefined;
  readonly events: readonly Event[];
}

export function made({ spans, logs }: Recorded, options: MappingOptions = OPTIONS): Made[] {
  const all = [
    ...spans.map((of) => ({ of, at: of.start, order: 0, ...eventsOfSpan(of, options) })),
    ...logs.map((of) => ({ of, at: of.time, order: 1, ...eventsOfLog(of, options) })),
  ];
  return all.map(({ of, at, order, reason, events }) => ({
    ...{ of, at, order, reason },
    events: events.map(eventOf),
  }));
}

export function drawn(recorded: Recorded): unknown[] {
  const once = new Map<string, Made>();
  for (const each of made(recorded)) {
    const { of, events, order } = each;
    once.set(order === 0 ? `${of.traceId}${of.spanId}` : `${once.size}${events[0]?.event_id}`, each);
  }
  const inOrder = [...once.values()].sort(
    (a, b) => a.order - b.order || compare(a.at, b.at) || compare(a.of.spanId, b.of.spanId),
  );
  const byTime = inOrder.toSorted((a, b) => compare(a.at, b.at) || compare(a.of.spanId, b.of.spanId));
  const traces = new Set(byTime.map(({ of }) => of.traceId));
  return [...traces].map((traceId) => traceOf(inOrder.filter(({ of }) => of.traceId === traceId)));
}

function traceOf(all: readonly Made[]): unknown {
  const events = all.flatMap((each) => each.events);
  const artifacts = (type: string) =>
    events.flatMap(({ artifact }) => (artifact?.['artifact_type'] === type ? [artifact] : []));
  const queries = new Set(artifacts('text_chunk').map((chunk) => chunk['query']));
  const logs = events.flatMap(({ artifact }) => artifact?.['event_name'] ?? []);
  return filled({
    calls: events.filter(({ kind }) => kind === 'inference-start').map((start) => callOf(start, events)),
    tools_executed: artifacts('tool_call').flatMap((tool) =>
      tool['executed'] === true ? [toolOf(tool)] : [],
    ),
    documents: artifacts('text_chunk').length,
    query: queries.size > 1 ? [...queries] : [...queries][0],
    evaluations: artifacts('explanation').map(evaluationOf),
    feedback: events.flatMap(({ feedback }) => (feedback ? [evaluationOf(feedback)] : [])),
    outcomes: events.flatMap(({ outcome }) => (outcome ? [evaluationOf(outcome)] : [])),
    log_records: counted(logs),
    nothing: counted(all.flatMap(({ reason }) => reason ?? [])),
  });
}

function callOf(start: Event, events: readonly Event[]): unknown {
  const own = events.filter((event) => event.parent_event_id === start.event_id);
  const ends = own.filter(({ artifact, output }) => 'ending' in (artifact ?? output ?? {}));
  const [end] = ends;
  if (ends.length !== 1 || end === undefined) throw new Error(`${ends.length} ends`);
  const said = end.artifact ?? end.output ?? {};
  const { instrumentation } = end.system_metadata;
  const of = (type: string) =>
    own.flatMap(({ artifact }) => (artifact?.['artifact_type'] === type ? [artifact] : []));
  const { target_type: type, target_id: id } = start.target_identity ?? {};
  const isAgent = /agent|workflow|CHAIN|chain|AGENT|ai\.\w+$/.test(String(start.inputs?.['operation']));
  return {
    shown: false,
    ...filled({
      model: start.model_instance?.['model_id'],
      kind: isAgent ? 'agent' : 'model',
      provider: start.model_instance?.['provider'],
      ending: said['ending'],
      shown: end.kind === 'human-output',
      shown_by: instrumentation['shown_by'] === 'default' ? undefined : instrumentation['shown_by'],
      text: said['summary'] ?? said['text'],
      reasoning: of('reasoning_trace')[0]?.['text'],
      question: start.inputs?.['prompt'],
      user: start.user_identity?.['caller_id'],
      target: [type, id].join(' ').trim(),
      conversation: instrumentation['conversation_id'],
      tools_asked: of('tool_call').map(toolOf),
      usage: usageOf(said['usage']),
      usage_of_all: usageOf(said['usage_of_all']),
      response_model: said['response_model'],
      error_name: said['error_name'],
      status: said['status'],
      dropped: instrumentation['dropped_attributes'],
    }),
  };
}

function toolOf({ tool_name: name, call_id: id }: Members): string {
  return [name, id].join(' ').trim();
}

function evaluationOf({ evaluation_name: name, score }: Members): string {
  return [name, score].join(' ').trim();
}

/** Some emitters send 0 where others send nothing. */
function usageOf(usage: unknown): Members {
  return Object.fromEntries(
    Object.entries(usage ?? {}).filter(([name, count]) => count !== 0 || /^(in|out)put_tokens$/.test(name)),
  );
}

function counted(names: readonly unknown[]): Members {
  const counts = Map.groupBy(names, String);
  return Object.fromEntries([...counts].map(([name, all]) => [name, all.length]));
}

function compare<Value>(a: Value, b: Value): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Without members that are empty, absent, 0 or false. */
function filled(object: Members): Members {
  const isEmpty = (value: unknown) =>
    !value || (typeof value === 'object' && Object.keys(value).length === 0);
  return Object.fromEntries(Object.entries(object).filter(([, value]) => !isEmpty(value)));
}
