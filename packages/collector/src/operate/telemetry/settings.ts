/**
 * Which telemetry an operator wants, by the standard variables of OpenTelemetry (its specification, "Environment Variable
 * Specification" and "OpenTelemetry Protocol Exporter"). Nothing is wanted unless an endpoint or an exporter is named.
 *
 * Only what decides that is read here, because that is done at every start. Where telemetry goes is read in target.ts;
 * OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read by OpenTelemetry's own code.
 *
 * A value that means nothing is told and taken as if it were not there, as the specification asks: no telemetry is worth
 * a collector that does not start. Values are never told: an endpoint may hold a password.
 */

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

export interface Sampling {
  readonly sampler: (typeof SAMPLERS)[number];
  /** The part of requests that are sampled, for those samplers that have one: 0 to 1. */
  readonly ratio: number;
}

export interface TelemetrySettings {
  /** Undefined when no traces are wanted. */
  readonly traces: Sampling | undefined;
  /** Undefined when no metrics are wanted. */
  readonly metrics: { readonly intervalMs: number } | undefined;
  /** What was not understood, each a sentence for the log. */
  readonly warnings: readonly string[];
}

/** The variables that are set, by name; none is blank. */
export type Variables = Readonly<Record<string, string>>;

/**
 * Unless OTEL_TRACES_SAMPLER says otherwise, one request in a hundred of those whose sender has not decided. Not the
 * specification's default, which is all of them: a collector answers many thousands a second.
 */
const DEFAULT_SAMPLING: Sampling = { sampler: 'parentbased_traceidratio', ratio: 0.01 };
const DEFAULT_INTERVAL_MS = 60_000;
/** The longest that a timer takes. */
const LONGEST_INTERVAL_MS = 2 ** 31 - 1;
const PROTOCOL = 'http/protobuf';

export function telemetrySettings(variables: Variables): TelemetrySettings {
  const warnings: string[] = [];
  if (variables['OTEL_SDK_DISABLED']?.trim().toLowerCase() === 'true') {
    return { traces: undefined, metrics: undefined, warnings };
  }
  const traces = isWanted('TRACES', variables, warnings) ? samplingOf(variables, warnings) : undefined;
  const metrics = isWanted('METRICS', variables, warnings)
    ? { intervalMs: intervalOf(variables, warnings) }
    : undefined;
  return { traces, metrics, warnings };
}

function isWanted(signal: 'TRACES' | 'METRICS', variables: Variables, warnings: string[]): boolean {
  const exporter = `OTEL_${signal}_EXPORTER`;
  const exporters = variables[exporter]?.split(',').map((name) => name.trim());
  if (exporters?.some((name) => name !== 'otlp' && name !== 'none')) {
    warnings.push(`${exporter} names an exporter that the collector does not have: it has otlp and none`);
  }
  const endpoint = [`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, 'OTEL_EXPORTER_OTLP_ENDPOINT'].find(
    (name) => variables[name] !== undefined,
  );
  if (exporters === undefined ? endpoint === undefined : !exporters.includes('otlp')) return false;
  if (endpoint !== undefined && !isHttpUrl(variables[endpoint] ?? '')) {
    warnings.push(`${endpoint} is no http or https URL: no ${signal.toLowerCase()} are exported`);
    return false;
  }
  const protocol = [`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`, 'OTEL_EXPORTER_OTLP_PROTOCOL'].find(
    (name) => variables[name] !== undefined,
  );
  if (protocol !== undefined && variables[protocol] !== PROTOCOL) {
    warnings.push(`${protocol} names a protocol that the collector does not speak: it speaks ${PROTOCOL}`);
  }
  return true;
}

function isHttpUrl(text: string): boolean {
  return ['http:', 'https:'].includes(URL.parse(text)?.protocol ?? '');
}

function samplingOf(variables: Variables, warnings: string[]): Sampling {
  const named = variables['OTEL_TRACES_SAMPLER']?.trim();
  const sampler = SAMPLERS.find((known) => known === named);
  if (named !== undefined && sampler === undefined) {
    warnings.push(`OTEL_TRACES_SAMPLER is none of ${SAMPLERS.join(', ')}`);
  }
  const argument = variables['OTEL_TRACES_SAMPLER_ARG'];
  const ratio = argument === undefined ? undefined : Number(argument);
  const fits = ratio !== undefined && ratio >= 0 && ratio <= 1;
  if (ratio !== undefined && !fits) warnings.push('OTEL_TRACES_SAMPLER_ARG is no number from 0 to 1');
  // To a sampler that was named, the specification gives 1.
  const otherwise = sampler === undefined ? DEFAULT_SAMPLING.ratio : 1;
  return { sampler: sampler ?? DEFAULT_SAMPLING.sampler, ratio: fits ? ratio : otherwise };
}

function intervalOf(variables: Variables, warnings: string[]): number {
  const text = variables['OTEL_METRIC_EXPORT_INTERVAL'];
  if (text === undefined) return DEFAULT_INTERVAL_MS;
  const interval = Number(text);
  if (Number.isInteger(interval) && interval > 0 && interval <= LONGEST_INTERVAL_MS) return interval;
  warnings.push('OTEL_METRIC_EXPORT_INTERVAL is no whole number of milliseconds');
  return DEFAULT_INTERVAL_MS;
}
