/** OTLP requests whose spans differ only in their ids, and the events expected of them. */

const TRACE_MARK = 'f1e2d3c4b5a69788';
const SPAN_MARK = 'e9d8c7b6';
/** Bytes of content in each span. */
const CONTENT_BYTES = 1024;
const SPANS_OF_TRACE = 8;
const START = 1_795_753_118_872_000_000n;

const WORDS =
  'the estimate rose with lactate of morning round and oxygen need last two hours blood pressure diuresis was within ' +
  'range day before passage on early recognition retrieved weighed alternative explanation recent surgery found less ' +
  'likely patient potassium creatinine value normal ward nurse dose twice week check heart rate after start low fluid';

/** Text of a number of bytes, different for each call, the same in each process. */
function talker() {
  const words = WORDS.split(' ');
  let state = 1;
  return (bytes) => {
    let text = '';
    while (text.length < bytes) {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      text += `${words[(state >>> 16) % words.length]} `;
    }
    return text.slice(0, bytes);
  };
}

const said = (role, content, more) => JSON.stringify([{ role, parts: [{ type: 'text', content }], ...more }]);

/**
 * An agent that retrieves, asks a model, calls a tool, asks the model again and has the answer checked, with
 * the HTTP calls of both. Each span has its attributes, the index of its parent, and its events by kind.
 */
function traceOf(say) {
  const [half, whole] = [CONTENT_BYTES / 2, CONTENT_BYTES];
  const call = { type: 'tool_call', id: 'call_1', name: 'get_potassium', arguments: { patient: say(half) } };
  const model = (name, output, reason) => ({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai',
    'gen_ai.request.model': name,
    'gen_ai.response.model': `${name}-2026-08-06`,
    'gen_ai.response.id': 'chatcmpl-1',
    'gen_ai.response.finish_reasons': [reason],
    'gen_ai.usage.input_tokens': 262,
    'gen_ai.usage.output_tokens': 123,
    'gen_ai.input.messages': said('user', say(half)),
    'gen_ai.output.messages': output,
  });
  const answer = () => said('assistant', say(half), { finish_reason: 'stop' });
  const asks = JSON.stringify([{ role: 'assistant', parts: [call], finish_reason: 'tool_call' }]);
  const agent = {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.name': 'ward-round',
    'gen_ai.input.messages': said('user', say(half)),
    'gen_ai.output.messages': answer(),
  };
  const retrieval = {
    'gen_ai.operation.name': 'retrieval',
    'gen_ai.data_source.id': 'guidelines',
    'gen_ai.retrieval.query.text': say(half),
    'gen_ai.retrieval.documents': JSON.stringify([{ id: 'doc-1', score: 0.95, content: say(half) }]),
  };
  const tool = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'get_potassium',
    'gen_ai.tool.call.id': 'call_1',
    'gen_ai.tool.call.arguments': JSON.stringify({ patient: say(half) }),
    'gen_ai.tool.call.result': JSON.stringify({ value: say(half) }),
  };
  const http = () => ({ 'http.request.method': 'POST', 'http.request.body': say(whole) });
  const [started, artifact, shown] = ['inference-start', 'internal-artifact', 'human-output'];
  return [
    { name: 'invoke_agent ward-round', attributes: agent, events: { [started]: 1, [artifact]: 1 } },
    { name: 'retrieval guidelines', parent: 0, attributes: retrieval, events: { [artifact]: 1 } },
    {
      name: 'chat gpt-4o',
      parent: 0,
      attributes: model('gpt-4o', asks, 'tool_call'),
      // How it ended, and the tool that it asked for.
      events: { [started]: 1, [artifact]: 2 },
    },
    { name: 'POST', parent: 2, attributes: http(), events: {} },
    { name: 'execute_tool get_potassium', parent: 0, attributes: tool, events: { [artifact]: 1 } },
    {
      name: 'chat gpt-4o',
      parent: 0,
      attributes: model('gpt-4o', answer(), 'stop'),
      events: { [started]: 1, [shown]: 1 },
    },
    { name: 'POST', parent: 5, attributes: http(), events: {} },
    {
      name: 'chat gpt-4o-mini',
      parent: 0,
      attributes: model('gpt-4o-mini', answer(), 'stop'),
      events: { [started]: 1, [shown]: 1 },
    },
  ];
}

const hex = (number, digits) => number.toString(16).padStart(digits, '0');
const traceIdOf = (mark, at) => mark + hex(Math.floor(at / SPANS_OF_TRACE) + 1, 16);
const spanIdOf = (mark, at) => mark + hex(at + 1, 8);

/** The spans of a request as OTLP's JSON has them. */
function spansOf(count) {
  const say = talker();
  const traces = Array.from({ length: Math.ceil(count / SPANS_OF_TRACE) }, () => traceOf(say));
  return traces
    .flat()
    .slice(0, count)
    .map(({ name, parent, attributes, events }, at) => ({
      traceId: traceIdOf(TRACE_MARK, at),
      spanId: spanIdOf(SPAN_MARK, at),
      parentSpanId: parent === undefined ? '' : spanIdOf(SPAN_MARK, at - (at % SPANS_OF_TRACE) + parent),
      name,
      kind: 3,
      start: START + BigInt(at) * 1_000_000n,
      end: START + BigInt(at) * 1_000_000n + 750_000n,
      attributes,
      events,
    }));
}

const RESOURCE = { 'service.name': 'ward-assistant', 'service.version': '2.3.0' };
const SCOPE = { name: 'bench', version: '1.0' };

function jsonOf(spans) {
  const valueOf = (value) => {
    if (Array.isArray(value)) return { arrayValue: { values: value.map(valueOf) } };
    return typeof value === 'number' ? { intValue: `${value}` } : { stringValue: value };
  };
  const listed = (attributes) =>
    Object.entries(attributes).map(([key, value]) => ({ key, value: valueOf(value) }));
  const written = spans.map(({ start, end, attributes, ...span }) => ({
    ...span,
    events: undefined,
    startTimeUnixNano: `${start}`,
    endTimeUnixNano: `${end}`,
    attributes: listed(attributes),
    status: {},
    flags: 257,
  }));
  const scopeSpans = [{ scope: SCOPE, spans: written }];
  return Buffer.from(
    JSON.stringify({ resourceSpans: [{ resource: { attributes: listed(RESOURCE) }, scopeSpans }] }),
  );
}

/** Fields of Protocol Buffers' wire format: https://protobuf.dev/programming-guides/encoding/ */
const wire = {
  varint(value) {
    const bytes = [];
    for (let rest = value; ; rest >>>= 7) {
      if (rest < 0x80) return Buffer.from([...bytes, rest]);
      bytes.push((rest & 0x7f) | 0x80);
    }
  },
  bytes: (field, content) =>
    Buffer.concat([wire.varint((field << 3) | 2), wire.varint(content.length), content]),
  text: (field, content) => wire.bytes(field, Buffer.from(content)),
  id: (field, digits) => (digits === '' ? Buffer.alloc(0) : wire.bytes(field, Buffer.from(digits, 'hex'))),
  number: (field, value) => Buffer.concat([wire.varint(field << 3), wire.varint(value)]),
  fixed64(field, value) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(value);
    return Buffer.concat([wire.varint((field << 3) | 1), bytes]);
  },
  message: (field, ...parts) => wire.bytes(field, Buffer.concat(parts)),
};

function protobufOf(spans) {
  const valueOf = (value) => {
    if (Array.isArray(value)) return wire.message(5, ...value.map((one) => wire.bytes(1, valueOf(one))));
    return typeof value === 'number' ? wire.number(3, value) : wire.text(1, value);
  };
  const listed = (field, attributes) =>
    Object.entries(attributes).map(([key, value]) =>
      wire.message(field, wire.text(1, key), wire.bytes(2, valueOf(value))),
    );
  const written = spans.map((span) =>
    wire.message(
      ...[2, wire.id(1, span.traceId), wire.id(2, span.spanId), wire.id(4, span.parentSpanId)],
      ...[wire.text(5, span.name), wire.number(6, span.kind)],
      ...[wire.fixed64(7, span.start), wire.fixed64(8, span.end)],
      ...listed(9, span.attributes),
      wire.message(15),
      // fixed32: the parent is known not to be remote.
      ...[wire.varint((16 << 3) | 5), Buffer.from([1, 1, 0, 0])],
    ),
  );
  const scope = wire.message(1, wire.text(1, SCOPE.name), wire.text(2, SCOPE.version));
  return wire.message(1, wire.message(1, ...listed(1, RESOURCE)), wire.message(2, scope, ...written));
}

function placesOf(mark, body) {
  const places = [];
  for (let at = body.indexOf(mark); at >= 0; at = body.indexOf(mark, at + mark.length)) places.push(at);
  return places;
}

/** Bodies with a number of spans each; those of one seed and number are the same. */
export class OtlpRequests {
  #template;
  #places;
  #seed;
  #digits;

  /** @param encoding protobuf or json. */
  constructor({ spans, encoding, seed }) {
    const all = spansOf(spans);
    this.#seed = seed;
    this.#digits = encoding === 'json' ? 'latin1' : 'hex';
    this.#template = encoding === 'json' ? jsonOf(all) : protobufOf(all);
    this.#places = [TRACE_MARK, SPAN_MARK].map((mark) =>
      placesOf(Buffer.from(mark, this.#digits), this.#template),
    );
    const [traces, others] = this.#places;
    const parents = all.filter(({ parentSpanId }) => parentSpanId !== '').length;
    if (traces.length !== spans || others.length !== spans + parents)
      throw new Error('the ids of the spans were not found in the request');
  }

  /** The body of the request of this number, in `into` if there is such a buffer. */
  body(number, into = Buffer.from(this.#template)) {
    const marks = marksOf(this.#seed, number).map((mark) => Buffer.from(mark, this.#digits));
    for (const [i, places] of this.#places.entries()) for (const at of places) marks[i].copy(into, at);
    return into;
  }
}

const marksOf = (seed, number) => [hex(seed, 8) + hex(number, 8), hex(number + 1, 8)];

/** The expected events of each span by kind; the key is trace id, space, span id. */
export function expectedOf({ spans, seed }, number) {
  const [trace, span] = marksOf(seed, number);
  const made = traceOf(talker()).map(({ events }) => events);
  return new Map(
    Array.from({ length: spans }, (_, at) => [
      `${traceIdOf(trace, at)} ${spanIdOf(span, at)}`,
      made[at % SPANS_OF_TRACE],
    ]),
  );
}

/** The expected events of a request with this number of spans. */
export function eventsOf(spans) {
  const made = [...expectedOf({ spans, seed: 0 }, 0).values()];
  return made.flatMap((events) => Object.values(events)).reduce((sum, count) => sum + count, 0);
}
