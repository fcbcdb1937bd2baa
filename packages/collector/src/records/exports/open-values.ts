/**
 * What the exports for audit repositories, tracing backends and provenance stores take from a payload: identifiers,
 * addresses and words of the protocol's vocabularies, and nothing else. Prompts, summaries, comments, descriptions and
 * fields that nobody named are read by more people there than the log is by, so they do not leave it this way.
 *
 * The profile `minimum` lets a sender write anything where `full` has a vocabulary, prose included: a word that is not
 * of the vocabulary is no word here. In the same way an address has to be one.
 */
import type {
  Artifact,
  FullFeedback,
  FullOutcome,
  FullTargetIdentity,
  FullUserIdentity,
} from '@clinical-events/protocol';
import { numberOf } from '../raw-json.js';

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

/** Neither JSON nor FHIR, XML or protobuf readers agree on these; a lone surrogate is not even Unicode. */
// eslint-disable-next-line no-control-regex -- they are what is looked for
const UNWRITABLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g;

/**
 * An identifier or a name as it can be written everywhere: what no format can hold is U+FFFD.
 * @returns undefined for what is no string, or has nothing to be seen in it.
 */
export function nameIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const name = value.toWellFormed().replace(UNWRITABLE, '\uFFFD').trim();
  return name === '' ? undefined : name;
}

/** RFC 3986: a scheme, and then only characters that a URI has. */
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#[\]@!$&'()*+,;=%-]+$/;

/**
 * Where content is kept, as an absolute URI.
 * @returns undefined for anything else, and for a `data:` URI: that is the content itself.
 */
export function addressIn(value: unknown): string | undefined {
  if (typeof value !== 'string' || !URI.test(value)) return undefined;
  return /^data:/i.test(value) ? undefined : value;
}

/** @returns undefined for what is not of the vocabulary. */
export function wordIn<T extends string>(vocabulary: readonly T[], value: unknown): T | undefined {
  return vocabulary.find((word) => word === value);
}

/** @returns undefined for what is no rating from 0 to 5. */
export function ratingIn(value: unknown): number | undefined {
  const rating = numberOf(value);
  return rating !== undefined && rating >= 0 && rating <= 5 ? rating : undefined;
}
