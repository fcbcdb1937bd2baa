import * as conventions from '@opentelemetry/semantic-conventions/incubating';
import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assembleRecord, UNLINKED } from '../../collector/src/records/assemble.js';
import { otlp } from '../src/otlp.js';
import { event, fullRun, id, RUN } from '../../collector/test/records/run-events.js';
import { anyRecord, erased, PROSE, says } from '../../collector/test/records/exports/any-record.js';
import { throughProtobuf } from './otlp-reader.js';
import { runs } from '../../../test/property-runs.js';

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly events?: readonly { readonly name: string; readonly attributes: readonly Attribute[] }[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
}
interface Request {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly Span[]; readonly schemaUrl: string }[];
    readonly schemaUrl: string;
  }[];
}

const requestOf = (record: ClinicalRecord) => JSON.parse(otlp(record)) as Request;
const spansOf = (record: ClinicalRecord) =>
  requestOf(record).resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
const named = (attributes: readonly Attribute[] = []) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
const hex = (uuid: string) => uuid.replaceAll('-', '');
const start = (more: Readonly<Record<string, unknown>>, parent: string | null = null) =>
  event({ kind: 'inference-start', n: 1, parent, more });

/** The package has the names of 1.41; the repository of the conventions has since changed one (#440). */
const KNOWN: ReadonlySet<unknown> = new Set([
  ...Object.values(conventions).filter((name) => name !== 'gen_ai.usage.cache_creation.input_tokens'),
  'gen_ai.usage.cache_write.input_tokens',
]);

describe('a record in OTLP/JSON', () => {
  test('names the action and the time of an erased event [R-1334]', () => {
    const gone = erased(event({ kind: 'outcome', n: 4, payloadState: 'erased' }));
    const [, span] = spansOf(assembleRecord([start({}), gone]));
    expect(named(span?.attributes)).toMatchObject({
      'clinical_events.event.payload': 'erased',
      'clinical_events.event.action': id(900),
      'clinical_events.event.erased_at': '2026-06-01T00:00:00.000Z',
    });
  });

  test('is a trace of the run up to its last output, and a trace for each later event [R-712]', () => {
    const [root, artifact, output, outcome, feedback] = spansOf(assembleRecord(fullRun()));
    expect(root).toMatchObject({
      traceId: hex(RUN),
      name: 'generate_content sepsis-risk',
      kind: 3,
      startTimeUnixNano: '1772440261000000000',
      endTimeUnixNano: '1772440263000000000',
    });
    expect(root).not.toHaveProperty('parentSpanId');
    expect(artifact).toMatchObject({ traceId: hex(RUN), parentSpanId: root?.spanId, name: 'execute_tool' });
    expect(output).toMatchObject({ traceId: hex(RUN), parentSpanId: artifact?.spanId, name: 'human-output' });
    for (const [span, n] of [
      [outcome, 4],
      [feedback, 5],
    ] as const) {
      expect(span).toMatchObject({
        traceId: hex(id(n)),
        links: [{ traceId: hex(RUN), spanId: output?.spanId }],
      });
    }
  });

  test('uses the names of the conventions for generative AI [R-712]', () => {
    const [root, artifact, , , feedback] = spansOf(assembleRecord(fullRun()));
    expect(named(root?.attributes)).toMatchObject({
      'gen_ai.operation.name': 'generate_content',
      'gen_ai.request.model': 'sepsis-risk',
      'gen_ai.response.model': 'sepsis-risk@4.2.0',
    });
    expect(named(artifact?.attributes)).toMatchObject({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.call.id': id(2),
    });
    expect(feedback?.events?.[0]?.name).toBe('gen_ai.evaluation.result');
    expect(named(feedback?.events?.[0]?.attributes)).toEqual({ 'gen_ai.evaluation.name': 'thumbs' });
  });

  test('links a nested run to the event that it was started from [R-712]', () => {
    const record = assembleRecord([start({}, id(300))], { ...UNLINKED, parentRunOf: () => id(200) });
    const outer = assembleRecord([
      event({ kind: 'inference-start', n: 200, run: id(200) }),
      event({ kind: 'internal-artifact', n: 300, run: id(200) }),
    ]);
    expect(spansOf(record)[0]?.links).toEqual([{ traceId: hex(id(200)), spanId: spansOf(outer)[1]?.spanId }]);
  });

  test('the latency of an activity ends at its timestamp, that of a start begins there [R-712]', () => {
    const system_metadata = { latency_ms: 250 };
    const [root, artifact] = spansOf(
      assembleRecord([
        start({ system_metadata }),
        event({ kind: 'internal-artifact', n: 2, more: { system_metadata } }),
      ]),
    );
    expect([root?.startTimeUnixNano, root?.endTimeUnixNano]).toEqual([
      '1772440261000000000',
      '1772440261250000000',
    ]);
    expect([artifact?.startTimeUnixNano, artifact?.endTimeUnixNano]).toEqual([
      '1772440261750000000',
      '1772440262000000000',
    ]);
  });

  test('has a span for each call within that of the run, by its model and with its tokens [R-712]', () => {
    const call = (n: number, model_id: string, parent: string | null = null) =>
      event({ kind: 'inference-start', n, parent, more: { model_instance: { model_id }, inputs: {} } });
    const answer = (n: number, parent: string, input_tokens: unknown) =>
      event({
        kind: 'human-output',
        n,
        parent,
        more: {
          output: {
            ending: 'complete',
            response_model: 'm-1-0613',
            usage: {
              ...{ input_tokens, output_tokens: 7, cache_read_input_tokens: 100 },
              ...{ cache_creation_input_tokens: 8, reasoning_output_tokens: 'many' },
            },
          },
          system_metadata: { hostname: 'ward-7', instrumentation: { by: 'openai' } },
        },
      });
    const [root, first, ...others] = spansOf(
      assembleRecord([
        call(1, 'm-1'),
        answer(2, id(1), 120),
        event({ kind: 'internal-artifact', n: 3, parent: id(2) }),
        call(4, 'm-2', id(3)),
        answer(6, id(4), 1.5),
        call(5, 'm-3'),
      ]),
    );
    expect(root).toMatchObject({
      traceId: hex(RUN),
      name: 'invoke_workflow',
      kind: 1,
      startTimeUnixNano: '1772440261000000000',
      endTimeUnixNano: '1772440266000000000',
    });
    expect(root).not.toHaveProperty('parentSpanId');
    expect(named(root?.attributes)).toMatchObject({ 'gen_ai.operation.name': 'invoke_workflow' });
    expect(first).toMatchObject({
      parentSpanId: root?.spanId,
      name: 'inference m-1',
      kind: 3,
      startTimeUnixNano: '1772440261000000000',
      endTimeUnixNano: '1772440262000000000',
    });
    expect(named(first?.attributes)).toMatchObject({
      'gen_ai.request.model': 'm-1',
      'gen_ai.response.model': 'm-1-0613',
      'gen_ai.usage.input_tokens': '120',
      'gen_ai.usage.output_tokens': '7',
      'gen_ai.usage.cache_read.input_tokens': '100',
      'gen_ai.usage.cache_write.input_tokens': '8',
      'clinical_events.call.ending': 'complete',
      'clinical_events.event.id': id(1),
    });
    expect(named(first?.attributes)).not.toHaveProperty('gen_ai.usage.reasoning.output_tokens');
    const [output, tool, second, third, last] = others;
    expect(output?.parentSpanId).toBe(first?.spanId);
    expect([second?.name, second?.parentSpanId]).toEqual(['inference m-2', tool?.spanId]);
    expect(named(second?.attributes)).not.toHaveProperty('gen_ai.usage.input_tokens');
    expect(third).toMatchObject({ name: 'inference m-3', parentSpanId: root?.spanId });
    expect(last?.parentSpanId).toBe(second?.spanId);
  });

  test('has the tokens of a single call even if the answer names no parent [R-712]', () => {
    const [root] = spansOf(
      assembleRecord([
        start({}),
        event({
          kind: 'human-output',
          n: 2,
          more: {
            output: { ending: 'complete', usage: { input_tokens: 5 } },
            system_metadata: { instrumentation: { by: 'openai' } },
          },
        }),
      ]),
    );
    expect(named(root?.attributes)).toMatchObject({ 'gen_ai.usage.input_tokens': '5' });
  });

  test('has the schema URLs of the conventions [R-712]', () => {
    const artifact = { artifact_type: 'text_chunk' };
    const { resourceSpans } = requestOf(
      assembleRecord([start({}), event({ kind: 'internal-artifact', n: 2, more: { artifact } })]),
    );
    const spans = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
    expect(spans).toContainEqual(expect.objectContaining({ name: 'retrieval', kind: 1 }));
    expect(spans).toHaveLength(2);
    for (const { schemaUrl, scopeSpans } of resourceSpans) {
      expect(schemaUrl).toBe('https://opentelemetry.io/schemas/1.44.0');
      for (const scope of scopeSpans)
        expect(scope.schemaUrl).toBe('https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev');
    }
  });

  test('groups events by their resource, with a process id only if it is a number [R-712]', () => {
    const resources = (proc_id: string) =>
      requestOf(
        assembleRecord([
          start({ system_metadata: { hostname: 'ward-7', app_name: 'gateway', proc_id } }),
          event({ kind: 'human-output', n: 3, more: { system_metadata: {} } }),
        ]),
      ).resourceSpans.map(({ resource }) => resource.attributes);
    expect(resources('4711')[0]).toContainEqual({ key: 'process.pid', value: { intValue: '4711' } });
    expect(named(resources('pod-x7')[0])).toEqual({
      'service.name': 'gateway',
      'service.instance.id': 'pod-x7',
      'host.name': 'ward-7',
      'clinical_events.organisation': 'default',
    });
    expect(named(resources('1')[1])).toMatchObject({ 'service.name': 'unknown_service' });
  });

  test('has no trace of a run with only an outcome [R-712]', () => {
    const spans = spansOf(assembleRecord([event({ kind: 'outcome', n: 4 })]));
    expect(spans.map(({ traceId }) => traceId)).toEqual([hex(id(4))]);
    expect(spans[0]).not.toHaveProperty('links');
  });

  test('comes back from protobuf unchanged for any record [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        const request = requestOf(record);
        expect(throughProtobuf(request)).toEqual(request);
      }),
      { numRuns: runs(300) },
    );
  });

  test('is trees of spans, one for each event, for any record [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        const spans = spansOf(record);
        const byId = new Map(spans.map((span) => [span.spanId, span]));
        expect(byId.size).toBe(spans.length);
        expect(spans.length - record.metadata.events.length).toBeOneOf([0, 1]);
        for (const span of spans) {
          expect(span.traceId).toMatch(/^(?!0+$)[0-9a-f]{32}$/);
          expect(span.spanId).toMatch(/^(?!0+$)[0-9a-f]{16}$/);
          expect(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano)).toBe(true);
          const keys = span.attributes.map(({ key }) => key);
          expect(new Set(keys).size).toBe(keys.length);
          for (const key of keys) if (!key.startsWith('clinical_events.')) expect(KNOWN).toContain(key);
          let [at, steps]: [Span | undefined, number] = [span, 0];
          while (at?.parentSpanId !== undefined && steps++ <= spans.length) {
            at = byId.get(at.parentSpanId);
            expect(at?.traceId).toBe(span.traceId);
          }
          expect(steps).toBeLessThanOrEqual(spans.length);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  test('has no text of a sender and no identity of a person [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        expect(says(otlp(record), PROSE)).toBe(false);
      }),
      { numRuns: runs(300) },
    );
    const text = otlp(assembleRecord(fullRun()));
    for (const identity of ['clinician-8841', 'patient-30977']) expect(text).not.toContain(identity);
  });
});
