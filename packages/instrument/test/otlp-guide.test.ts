/** The span processor for Node.js that docs/guide/opentelemetry.md shows, in OpenTelemetry's SDK. */
import { AsyncLocalStorage } from 'node:async_hooks';
import fs from 'node:fs';
import path from 'node:path';
import { type Attributes, type Context, context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { expect, onTestFinished, test } from 'vitest';

interface Shown {
  readonly clinical: <Result>(attributes: Attributes, task: () => Result) => Result;
  readonly ClinicalAttributes: new () => SpanProcessor;
}

const PACKAGE = path.resolve(import.meta.dirname, '..');
const GUIDE = fs.readFileSync(path.join(PACKAGE, '../../docs/guide/opentelemetry.md'), 'utf8');

test('[R-1240] the processor of the guide adds the attributes only to spans of the task', async () => {
  const [, block = ''] = /```js\n(import \{ context, createContextKey \}.*?)```/s.exec(GUIDE) ?? [];
  // In this directory it finds the packages that it imports.
  const directory = fs.mkdtempSync(path.join(PACKAGE, 'node_modules', '.guide-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true }));
  const file = path.join(directory, 'clinical.mjs');
  fs.writeFileSync(file, block);
  const { clinical, ClinicalAttributes } = (await import(file)) as Shown;

  const current = new AsyncLocalStorage<Context>();
  const manager = {
    active: () => current.getStore() ?? ROOT_CONTEXT,
    with: (to: Context, task: (...given: unknown[]) => unknown, self: unknown, ...given: unknown[]) =>
      current.run(to, () => task.apply(self, given)),
    bind: (_: Context, target: unknown) => target,
    enable: () => manager,
    disable: () => manager,
  };
  context.setGlobalContextManager(manager as Parameters<typeof context.setGlobalContextManager>[0]);
  onTestFinished(() => context.disable());
  const exporter = new InMemorySpanExporter();
  const tracer = new BasicTracerProvider({
    spanProcessors: [new ClinicalAttributes(), new SimpleSpanProcessor(exporter)],
  }).getTracer('guide');
  const span = (name: string) => tracer.startSpan(name).end();

  const nightly = tracer.startSpan('nightly');
  await context.with(trace.setSpan(context.active(), nightly), async () => {
    span('before');
    const one = async (run: string) => {
      span('begins');
      await Promise.resolve();
      tracer.startActiveSpan('agent', (agent) => {
        span(`model of ${run}`);
        agent.end();
      });
    };
    const runs = ['first', 'second'];
    await Promise.all(runs.map((run) => clinical({ 'clinical_events.run.id': run }, () => one(run))));
    span('after');
  });
  nightly.end();

  const spans = exporter.getFinishedSpans().map(({ name, attributes }) => [name, attributes]);
  const of = (run: string) => ({ 'clinical_events.run.id': run });
  expect(spans).toHaveLength(9);
  expect(spans).toEqual(
    expect.arrayContaining([
      ...['before', 'after', 'nightly'].map((name) => [name, {}]),
      ...['first', 'second'].flatMap((run) => [
        ['begins', of(run)],
        ['agent', of(run)],
        [`model of ${run}`, of(run)],
      ]),
    ]),
  );
});
