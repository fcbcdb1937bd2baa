/** The origin of a span or log record: members that all of its events share. */
import { countTooHigh, type Fields, firstName, modelName } from '@clinical-events/protocol/spans';
import type { Decoded } from '../decoded.js';
import { runIdOf } from './ids.js';

export interface Origin {
  readonly runId: string;
  readonly source: Fields;
  readonly instrumentation: Fields;
}

const NIL = '00000000-0000-0000-0000-000000000000';
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const OWN_RUN = 'clinical_events.run.id';
const NO_FIELDS: Fields = {};

/** A cache by resource: most spans of a request share one. */
const places = new WeakMap<Fields, { readonly source: Fields; readonly sdk: string | undefined }>();

/**
 * The run that the application names, if it is a UUID; a span's own value takes precedence over its
 * resource's.
 */
export function ownRunOf({ attributes, resource }: Decoded): string | undefined {
  const said = attributes[OWN_RUN] ?? resource[OWN_RUN];
  return typeof said === 'string' && UUID.test(said) && said !== NIL ? said.toLowerCase() : undefined;
}

/** @param more members from the instrumentation. */
export function originOf(decoded: Decoded, organisation: string, more: Fields = NO_FIELDS): Origin {
  const { traceId, spanId, attributes, resource, scope, scopeVersion } = decoded;
  const { droppedAttributesCount: dropped } = decoded;
  const said = attributes[OWN_RUN] ?? resource[OWN_RUN];
  const ownRun = ownRunOf(decoded);
  const tooHigh = countTooHigh(attributes);
  const { source, sdk } = placeOf(resource);
  return {
    runId: ownRun ?? runIdOf(organisation, traceId),
    source,
    instrumentation: {
      by: 'otlp',
      trace_id: traceId || undefined,
      span_id: spanId || undefined,
      ...more,
      scope: modelName(scope),
      scope_version: modelName(scopeVersion),
      sdk,
      ...(dropped > 0 && { dropped_attributes: dropped }),
      ...(tooHigh > 0 && { index_too_high: tooHigh }),
      ...(said !== undefined && ownRun === undefined && { run_id_ignored: true }),
    },
  };
}

function placeOf(resource: Fields) {
  const known = places.get(resource);
  if (known !== undefined) return known;
  const source = {
    hostname: firstName(resource, 'host.name'),
    app_name: firstName(resource, 'service.name'),
    proc_id: firstName(resource, 'service.instance.id', 'k8s.pod.name', 'process.pid'),
    environment: firstName(resource, 'deployment.environment.name', 'deployment.environment'),
  };
  const parts = ['name', 'language', 'version'].map((part) => firstName(resource, `telemetry.sdk.${part}`));
  const sdk = parts.filter((part) => part !== undefined).join(' ') || undefined;
  places.set(resource, { source, sdk });
  return { source, sdk };
}

const LAST = 253_402_300_799_999_999_999n;

/** Nanoseconds since 1970 within the range of RFC 3339; undefined for 0, which means unstated. */
export function instant(nanoseconds: bigint): bigint | undefined {
  return nanoseconds > 0n && nanoseconds <= LAST ? nanoseconds : undefined;
}

/** The time in UTC, to the millisecond, or to the nanosecond if it has that precision. */
export function timestampOf(nanoseconds: bigint): string {
  const milliseconds = new Date(Number(nanoseconds / 1_000_000n)).toISOString();
  const rest = nanoseconds % 1_000_000n;
  return rest === 0n ? milliseconds : `${milliseconds.slice(0, -1)}${String(rest).padStart(6, '0')}Z`;
}
