import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { EventKind } from '@clinical-events/protocol';
import { Random, runs, SEED } from '../../../../../test/property-runs.js';
import { examine, isFault } from '../../../src/ledger/examine.js';
import { eventsOfLog, eventsOfSpan, type Mapped } from '../../../src/otlp/mapping/mapping.js';
import { OPTIONS } from './drawn.js';
import { answered, endOf, eventsFor, MODEL, spanWith } from './made-up.js';
import { everything } from './recorded.js';

/** As the collector examines an event before it stores it, with the depth that the mapping promises. */
function expectValid({ events }: Mapped, about: string): void {
  for (const { kind, body } of events) {
    const result = examine(body, kind, 'minimum', 32);
    if (isFault(result))
      throw new Error(`${about}: ${JSON.stringify(result)} ${body.subarray(0, 2000).toString()}`);
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

test('[R-1901] an event that is too large is stored without its longest contents, and names them', () => {
  const messages = [
    { role: 'assistant', content: 'ä'.repeat(50_000) },
    { role: 'user', content: 'b'.repeat(20_000) },
  ];
  const span = spanWith({
    ...answered('c'.repeat(30_000)),
    'gen_ai.input.messages': JSON.stringify(messages),
  });
  const { events } = eventsOfSpan(span, { ...OPTIONS, maxEventBytes: 25_000 });
  expect(events.map(({ isShortened }) => isShortened)).toEqual([true, true]);
  for (const { body } of events) expect(body.length).toBeLessThanOrEqual(25_000);
  const [start, output] = eventsFor(span, { maxEventBytes: 25_000 });
  expect(start?.inputs).toEqual({ operation: 'chat', streamed: false, prompt: 'b'.repeat(20_000) });
  const json = JSON.stringify(messages);
  expect(start?.system_metadata.instrumentation['shortened']).toEqual({
    'inputs.messages': { characters: json.length, sha256: sha256(json) },
  });
  expect(output?.output).toMatchObject({ ending: 'complete', characters: 30_000 });
  expect(output?.output).not.toHaveProperty('summary');
  expect(output?.system_metadata.instrumentation['shortened']).toEqual({
    'output.summary': { characters: 30_000, sha256: sha256('c'.repeat(30_000)) },
  });
});

test('[R-1901] with the smallest limit of a collector, events are shortened and valid', () => {
  const name = 'n'.repeat(200);
  const resource = Object.fromEntries(
    ['host.name', 'service.name', 'service.instance.id'].map((each) => [each, name]),
  );
  const tools = JSON.stringify(Array.from({ length: 100 }, () => ({ name })));
  const attributes = { ...answered('x'), 'gen_ai.tool.definitions': tools, 'user.id': name };
  const mapped = eventsOfSpan(spanWith(attributes, { resource }), { ...OPTIONS, maxEventBytes: 1024 });
  expect(mapped.events.map(({ kind, isShortened }) => [kind, isShortened])).toEqual([
    ['inference-start', true],
    ['human-output', true],
  ]);
  for (const { body } of mapped.events) expect(body.length).toBeLessThanOrEqual(1024);
  expectValid(mapped, 'bare');
});

test('[R-1901] a long query of a retrieval is only in the first of its documents', () => {
  const documents = JSON.stringify(Array.from({ length: 3 }, (_, id) => ({ id: `d${id}`, content: 'x' })));
  const attributes = { 'gen_ai.operation.name': 'retrieval', 'gen_ai.retrieval.documents': documents };
  const query = 'q'.repeat(5000);
  const [first, ...others] = eventsFor(spanWith({ ...attributes, 'gen_ai.retrieval.query.text': query }));
  expect(first?.artifact).toMatchObject({ document_id: 'd0', query });
  for (const { artifact } of others) expect(artifact).toMatchObject({ query_in: first?.event_id });
});

test('[R-1901] a span becomes at most 4,096 artifacts, and the others are counted', () => {
  const documents = JSON.stringify(Array.from({ length: 5000 }, (_, id) => ({ id: `d${id}` })));
  const attributes = { 'gen_ai.operation.name': 'retrieval', 'gen_ai.retrieval.documents': documents };
  const events = eventsFor(spanWith(attributes));
  expect(events).toHaveLength(4096);
  expect(events[0]?.system_metadata.instrumentation['left_out']).toBe(904);
});

test('[R-1901] an index above 4,095 is left out and counted, and a name changes no prototype', () => {
  const message = (index: string) => `llm.output_messages.${index}.message.content`;
  const attributes: Record<string, unknown> = { 'openinference.span.kind': 'LLM', [message('0')]: 'Yes.' };
  for (const index of ['4095', '4096', '99999', '4294967294', '__proto__', 'constructor'])
    attributes[message(index)] = 'No.';
  attributes['llm.input_messages.0.message.__proto__.x.role'] = 'user';
  const events = eventsFor(spanWith(attributes));
  expect(endOf(events).output?.['summary']).toBe('Yes.No.');
  expect(endOf(events).system_metadata.instrumentation['index_too_high']).toBe(3);
  expect(Object.keys(Array.prototype)).toEqual([]);
  expect(Object.keys(Object.prototype)).toEqual([]);
});

const DEEP = '['.repeat(50_000) + ']'.repeat(50_000);

test.each<[string, string, unknown]>([
  ['JSON that is nested deeply', DEEP, DEEP],
  [
    'JSON at the limit of depth',
    '['.repeat(24) + ']'.repeat(24),
    JSON.parse('['.repeat(24) + ']'.repeat(24)),
  ],
  ['JSON one level deeper', '['.repeat(25) + ']'.repeat(25), '['.repeat(25) + ']'.repeat(25)],
  [
    'a number with more digits than a double',
    '{"patient":12345678901234567890}',
    '{"patient":12345678901234567890}',
  ],
  ['a number that is too large', '{"dose":1e400}', '{"dose":1e400}'],
  [
    'numbers that a double represents',
    '{"dose":1.10,"at":1795753119040,"small":1e-7}',
    { dose: 1.1, at: 1795753119040, small: 1e-7 },
  ],
  ['half a surrogate pair', '{"a":"\\ud83d","\\ud800":1,"\\udbff":2}', { a: '\ufffd', '\ufffd': 2 }],
  ['U+0000', '{"a":"\\u0000"}', { a: '\u0000' }],
  ['a backslash before a u', '{"a":"\\\\ud83d"}', { a: '\\ud83d' }],
  ['no JSON', '{"a":', '{"a":'],
])('[R-1901] %s', (_name, said, expected) => {
  const attributes = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.call.arguments': said };
  const span = spanWith(attributes);
  expect(eventsFor(span)[0]?.artifact?.['input']).toEqual(expected);
  expectValid(eventsOfSpan(span, OPTIONS), said.slice(0, 20));
});

const VALUES: readonly unknown[] = [
  ...[
    undefined,
    null,
    true,
    false,
    -1,
    0.5,
    NaN,
    Infinity,
    2 ** 60,
    '',
    ' ',
    '{',
    DEEP,
    '"\\ud800"',
    '\ud800',
    'a\u0000b',
  ],
  ...[
    'x'.repeat(5000),
    '[null, 1, "x", {}]',
    '[]',
    [],
    [null],
    [[]],
    {},
    { parts: 1 },
    '{"__proto__": {"x": 1}}',
  ],
  ...[
    [{ role: 'user', parts: [null, 1, { type: 'text', content: {} }] }],
    '{"messages": [null]}',
    '{"args":[1]}',
  ],
  ...['[{"role": "user", "content": [{"text": 1}]}]', '{"toJSON": 1}', '12345678901234567890', '1e999'],
];
const NAMES = [
  'llm.output_messages.__proto__.message.content',
  'llm.input_messages.0.message.__proto__.__proto__',
  'llm.input_messages.0.message.contents',
  'llm.input_messages.99999999999.message.content',
  ...[
    'gen_ai.input.messages',
    'gen_ai.output.messages',
    'gen_ai.tool.definitions',
    'gen_ai.retrieval.documents',
  ],
  ...['gen_ai.operation.name', 'openinference.span.kind', 'langfuse.observation.type', 'ai.operationId'],
  ...[
    'error.type',
    'clinical_events.shown',
    'clinical_events.run.id',
    'clinical_events.user.type',
    'user.id',
  ],
  ...[
    '__proto__',
    'constructor',
    'toJSON',
    'traceloop.entity.input',
    'input.value',
    'langfuse.observation.input',
  ],
];

test('[R-1890] whatever a span or a log record contains, nothing is thrown, and each event can be stored', () => {
  const kinds = new Set<EventKind>();
  for (let number = 0; number < runs(20_000, 2_000); number += 1) {
    const random = new Random(SEED + number);
    const isLog = random.below(8) === 0;
    const item = random.of<{ readonly attributes: Readonly<Record<string, unknown>> }>(
      isLog ? everything.logs : everything.spans,
    );
    const attributes = Object.assign(Object.create(null) as Record<string, unknown>, item.attributes);
    const names = [...Object.keys(attributes), ...NAMES];
    for (let times = random.below(6); times >= 0; times -= 1) {
      const name = random.of(names);
      if (random.below(4) === 0) Reflect.deleteProperty(attributes, name);
      else attributes[name] = random.below(2) === 0 ? random.of(VALUES) : item.attributes[random.of(names)];
    }
    const mutated = { ...item, attributes } as never;
    const options = { ...OPTIONS, maxEventBytes: random.of([1024, 4096, 1 << 20]) };
    const mapped = isLog ? eventsOfLog(mutated, options) : eventsOfSpan(mutated, options);
    expect(mapped.events.length === 0).toBe(mapped.reason !== undefined);
    for (const { kind, body } of mapped.events) {
      kinds.add(kind);
      expect(body.length).toBeLessThanOrEqual(options.maxEventBytes);
    }
    expectValid(mapped, `SEED=${SEED}, item ${number}`);
  }
  expect(kinds.size).toBeGreaterThan(2);
  expect(Object.keys(Object.prototype)).toEqual([]);
});

/** How many values of a span are read. */
function lookups(of: (size: number) => Readonly<Record<string, unknown>>, size: number): number {
  let count = 0;
  const attributes = new Proxy(of(size), {
    get: (target, name) => {
      count += 1;
      return target[name as string];
    },
  });
  const mapped = eventsOfSpan({ ...spanWith({}), attributes }, OPTIONS);
  expect(mapped.events.length).toBeGreaterThan(0);
  return count;
}

test.each<[string, (size: number) => Readonly<Record<string, unknown>>]>([
  [
    'messages',
    (size) =>
      Object.fromEntries(
        [...Array(size).keys()].map((at) => [`llm.input_messages.${at}.message.content`, 'x']),
      ),
  ],
  ['other attributes', (size) => Object.fromEntries([...Array(size).keys()].map((at) => [`a.${at}`, at]))],
])('[R-1890] the work is linear in the size of the span: %s', (_name, of) => {
  const withKind = (size: number) => ({ ...MODEL, ...of(size) });
  const [less, more] = [lookups(withKind, 500), lookups(withKind, 4000)];
  expect(more).toBeLessThan(9 * less);
});
