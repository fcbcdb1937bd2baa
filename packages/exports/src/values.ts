/**
 * The values that FHIR, OTLP and PROV take from a payload: identifiers, addresses and words of the protocol's
 * vocabularies. Prompts, summaries, comments, descriptions and unknown fields are left out, because more
 * people read audit repositories, tracing backends and provenance stores than the log. The profile `minimum`
 * allows any text in the place of a word or an address, so both are checked here.
 */
import type {
  Artifact,
  ClinicalRecord,
  FullFeedback,
  FullOutcome,
  FullTargetIdentity,
  FullUserIdentity,
  ModelInstance,
  RecordedEvent,
  RunCall,
} from '@clinical-events/protocol';
import { eventIdsOf } from '@clinical-events/collector/records/calls';
import { hasDay, type Instant, readInstant } from '@clinical-events/collector/records/instant';
import { numberOf } from '@clinical-events/collector/records/raw-json';

type Words<T> = readonly Exclude<T, undefined>[];

export const OUTCOME_TYPES = ['validated', 'contradicted', 'partial', 'unknown'] as const satisfies Words<
  FullOutcome['outcome_type']
>;
export const FEEDBACK_TYPES = ['rating', 'thumbs', 'text', 'survey'] as const satisfies Words<
  FullFeedback['feedback_type']
>;
export const CALLER_TYPES = ['clinician', 'patient', 'admin', 'service'] as const satisfies Words<
  FullUserIdentity['caller_type']
>;
export const TARGET_TYPES = ['patient', 'document', 'claim', 'none'] as const satisfies Words<
  FullTargetIdentity['target_type']
>;
export const ARTIFACT_TYPES = [
  'text_chunk',
  'reasoning_trace',
  'tool_call',
  'explanation',
  'other',
] as const satisfies Words<Artifact['artifact_type']>;
export const OUTPUT_TYPES = ['text', 'image', 'video', 'audio', 'other'] as const;

/** Readers of JSON, FHIR, XML and protobuf disagree on these characters. */
// eslint-disable-next-line no-control-regex -- it looks for control characters
const UNWRITABLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g;

/** White space that the pattern of a string in FHIR R4 does not match, such as U+00A0. */
const ODD_SPACE = /[^\S \r\n\t]/g;

/**
 * An identifier or a name that every format can hold: other characters become U+FFFD, and other white space
 * becomes a blank.
 * @returns undefined for a value that is not a string, or has no visible character.
 */
export function nameIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const name = value.toWellFormed().replace(UNWRITABLE, '\uFFFD').replace(ODD_SPACE, ' ').trim();
  return name === '' ? undefined : name;
}

/** RFC 3986: a scheme, then characters of a URI. */
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#[\]@!$&'()*+,;=%-]+$/;

/**
 * The address of content, as an absolute URI.
 * @returns undefined for any other value, and for a `data:` URI, which is the content itself.
 */
export function addressIn(value: unknown): string | undefined {
  if (typeof value !== 'string' || !URI.test(value)) return undefined;
  return /^data:/i.test(value) ? undefined : value;
}

/** @returns undefined for a value outside the vocabulary. */
export function wordIn<T extends string>(vocabulary: readonly T[], value: unknown): T | undefined {
  return vocabulary.find((word) => word === value);
}

/** @returns undefined for a value that is not a rating from 0 to 5. */
export function ratingIn(value: unknown): number | undefined {
  const rating = numberOf(value);
  return rating !== undefined && rating >= 0 && rating <= 5 ? rating : undefined;
}

/**
 * Date-times that XML Schema and FHIR both accept: FHIR's pattern with the nine digits of R5, without a leap
 * second. RFC 3339 also allows lower case, offsets of more than 14 hours, the year 0 and more digits.
 */
const COMMON = new RegExp(
  String.raw`^(?!0000)\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?` +
    String.raw`(Z|[+-](0\d|1[0-3]):[0-5]\d|[+-]14:00)$`,
);
const FIRST_SECOND = Date.parse('0001-01-01T00:00:00Z');
const LAST_SECOND = Date.parse('9999-12-31T23:59:59Z');

/**
 * @param timestamp valid by the protocol's schemas, or null.
 * @returns the same instant, as sent if possible, else in UTC; a leap second becomes the last nanosecond
 * before it. Undefined for null and for an instant outside the years 1 to 9999.
 */
export function dateTimeOf(timestamp: string | null): string | undefined {
  if (timestamp === null) return undefined;
  const text = timestamp.toUpperCase();
  if (COMMON.test(text)) return text;
  const { seconds, fraction } = withoutLeap(readInstant(timestamp));
  const milliseconds = seconds * 1000;
  if (milliseconds < FIRST_SECOND || milliseconds > LAST_SECOND) return undefined;
  const whole = new Date(milliseconds).toISOString().slice(0, -'.000Z'.length);
  return `${whole}${fraction === '' ? '' : `.${fraction.slice(0, 9)}`}Z`;
}

/**
 * @param value of a field that the protocol does not check.
 * @returns undefined for a value that is not a date-time.
 */
export function dateTimeIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const text = value.toUpperCase();
  return COMMON.test(text) && hasDay(text) ? text : undefined;
}

const NANOS_PER_SECOND = 1_000_000_000n;
export const LAST_NANOSECOND = 2n ** 64n - 1n;

/** @returns nanoseconds since 1970 UTC; undefined before 1970 and after 2554, the range of 64 bits. */
export function nanosecondsOf(instant: Instant): bigint | undefined {
  const { seconds, fraction } = withoutLeap(instant);
  const nanos = BigInt(seconds) * NANOS_PER_SECOND + BigInt(fraction.slice(0, 9).padEnd(9, '0'));
  return nanos >= 0n && nanos <= LAST_NANOSECOND ? nanos : undefined;
}

/** These formats have no leap seconds. */
function withoutLeap(instant: Instant): Instant {
  return /^\d*$/.test(instant.fraction) ? instant : { seconds: instant.seconds, fraction: '999999999' };
}

/** An object as sent: any member may be missing, or be of another type than in profile `full`. */
export type Payload = Readonly<Record<string, unknown>>;

const NOTHING: Payload = {};

/** Finds parts of a record by event id in constant time. */
export class RecordLookup {
  readonly record: ClinicalRecord;
  readonly #events: ReadonlyMap<string, RecordedEvent>;
  readonly #payloads = new Map<string, Payload>();
  /** Unnamed fields of outcomes and feedback. */
  readonly #extras = new Map<string, Payload>();
  readonly #calls = new Map<string, RunCall>();
  /** The models of the calls, each version once. */
  readonly models: readonly ModelInstance[];

  constructor(record: ClinicalRecord) {
    this.record = record;
    this.#events = new Map(record.metadata.events.map((event) => [event.event_id, event]));
    const models = new Map<string, ModelInstance>();
    for (const call of record.metadata.calls) {
      for (const id of eventIdsOf(call)) this.#calls.set(id, call);
      const { model } = call;
      if (model !== null) models.set(JSON.stringify([model.model_id, model.model_version]), model);
    }
    this.models = [...models.values()];
    for (const { event_id, artifact } of record.artifacts) this.#payloads.set(event_id, artifact);
    for (const { event_id, output } of record.outputs) this.#payloads.set(event_id, output);
    for (const { event_id, outcome, extra } of record.outcomes) {
      this.#payloads.set(event_id, outcome);
      this.#extras.set(event_id, extra);
    }
    for (const { event_id, feedback, extra } of record.feedback) {
      this.#payloads.set(event_id, feedback);
      this.#extras.set(event_id, extra);
    }
  }

  /** @returns undefined for an event of another record. */
  event(eventId: string | null): RecordedEvent | undefined {
    return eventId === null ? undefined : this.#events.get(eventId);
  }

  /**
   * The artifact, output, outcome or feedback of the event; without members if it has none or is unreadable.
   */
  payload({ event_id }: RecordedEvent): Payload {
    return this.#payloads.get(event_id) ?? NOTHING;
  }

  /** The call of the event, or the only call of the run; undefined if neither is known. */
  callOf({ event_id }: RecordedEvent): RunCall | undefined {
    const { calls } = this.record.metadata;
    return this.#calls.get(event_id) ?? (calls.length === 1 ? calls[0] : undefined);
  }

  /**
   * The model of the event's call, or the only model of all calls; undefined if it is unknown or ambiguous.
   */
  modelOf(event: RecordedEvent): ModelInstance | undefined {
    const call = this.callOf(event);
    if (call !== undefined) return call.model ?? undefined;
    return this.models.length === 1 ? this.models[0] : undefined;
  }

  /**
   * The author of an outcome or feedback: the unnamed field `user_identity` of the event or of its object.
   */
  giverOf(event: RecordedEvent): Payload | undefined {
    const said = [this.#extras.get(event.event_id), this.payload(event)];
    return said.map((each) => each?.['user_identity']).find(isPayload);
  }
}

function isPayload(value: unknown): value is Payload {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
