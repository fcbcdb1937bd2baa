import { describe, expect, test } from 'vitest';
import { openTelemetryVariables } from '../../../src/config.js';
import { telemetrySettings } from '../../../src/operate/telemetry/settings.js';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://user:secret@receiver.example:4318/base' };
const DEFAULTS = {
  traces: { sampler: 'parentbased_traceidratio', ratio: 0.01 },
  metrics: { intervalMs: 60_000 },
};
const settings = (env: NodeJS.ProcessEnv) => telemetrySettings(openTelemetryVariables(env));

describe('[R-846] telemetry is wanted', () => {
  test.each<[string, NodeJS.ProcessEnv, string[]]>([
    ['never by default', {}, []],
    ['not for a name', { OTEL_SERVICE_NAME: 'one', OTEL_TRACES_SAMPLER: 'always_on' }, []],
    ['not for a blank endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: '  ' }, []],
    ['not for a variable of another', { COLLECTOR_OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a' }, []],
    ['of both kinds for an endpoint', ENDPOINT, ['traces', 'metrics']],
    ['of one kind for its endpoint', { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://a/b' }, ['metrics']],
    ['of one kind for its exporter', { OTEL_TRACES_EXPORTER: 'otlp' }, ['traces']],
    ['not of a kind that has none', { ...ENDPOINT, OTEL_METRICS_EXPORTER: 'none' }, ['traces']],
    ['of a kind that has one among others', { OTEL_TRACES_EXPORTER: 'console, otlp' }, ['traces']],
    ['not of a kind that has only others', { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'zipkin' }, ['metrics']],
    ['not where the SDK is disabled', { ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' }, []],
    [
      'where it is disabled by a word that means nothing',
      { ...ENDPOINT, OTEL_SDK_DISABLED: '1' },
      ['traces', 'metrics'],
    ],
  ])('%s', (_name, env, wanted) => {
    const { traces, metrics } = settings(env);
    expect([traces && 'traces', metrics && 'metrics'].filter(Boolean)).toEqual(wanted);
  });
});

test('[R-846] samplers and intervals are those of the specification', () => {
  expect(settings(ENDPOINT)).toEqual({ ...DEFAULTS, warnings: [] });
  const sampling = (sampler: string, arg?: string) =>
    settings({ ...ENDPOINT, OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: arg }).traces;
  expect(sampling('always_on')).toMatchObject({ sampler: 'always_on' });
  expect(sampling('traceidratio')).toEqual({ sampler: 'traceidratio', ratio: 1 });
  expect(sampling('traceidratio', '0.25')).toEqual({ sampler: 'traceidratio', ratio: 0.25 });
  expect(sampling('', '0.5')).toEqual({ sampler: 'parentbased_traceidratio', ratio: 0.5 });
  expect(settings({ ...ENDPOINT, OTEL_METRIC_EXPORT_INTERVAL: '250' }).metrics).toEqual({ intervalMs: 250 });
});

test.each<[NodeJS.ProcessEnv, string]>([
  [{ OTEL_TRACES_SAMPLER: 'jaeger_remote' }, 'OTEL_TRACES_SAMPLER'],
  [{ OTEL_TRACES_SAMPLER_ARG: '7' }, 'OTEL_TRACES_SAMPLER_ARG'],
  [{ OTEL_TRACES_SAMPLER_ARG: 'half' }, 'OTEL_TRACES_SAMPLER_ARG'],
  [{ OTEL_METRIC_EXPORT_INTERVAL: '-1' }, 'OTEL_METRIC_EXPORT_INTERVAL'],
  [{ OTEL_METRIC_EXPORT_INTERVAL: '3000000000' }, 'OTEL_METRIC_EXPORT_INTERVAL'],
  [{ OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'grpc' }, 'OTEL_EXPORTER_OTLP_METRICS_PROTOCOL'],
])('[R-846] %o is told and left aside', (env, name) => {
  const { warnings, ...rest } = settings({ ...ENDPOINT, ...env });
  expect(rest).toEqual(DEFAULTS);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain(`${name} `);
});

test('[R-846] no value of a variable is told', () => {
  for (const endpoint of ['grpc://user:secret@receiver', 'user:secret', 'unix:/secret']) {
    const { traces, metrics, warnings } = settings({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    expect([traces, metrics]).toEqual([undefined, undefined]);
    expect(warnings).toHaveLength(2);
    expect(warnings.join()).not.toContain('secret');
  }
});
