/**
 * The event protocol of the collector: kinds, types, validation, errors. Pure functions and constants,
 * with no runtime dependency. The JSON Schemas and the OpenAPI document lie beside it in the package.
 */
export { ERRORS, errorBody } from './errors.js';
export type { ErrorCode, ErrorEntry } from './errors.js';
export type * from './generated/types.js';
export { MAX_ISSUES } from './issues.js';
export {
  ENTRY_KINDS,
  EVENT_KINDS,
  EVENT_PATHS,
  FIRST_ENTRY_KIND,
  PROFILES,
  PROTOCOL_VERSION,
} from './kinds.js';
export type { EventKind, Profile } from './kinds.js';
export { ENVELOPE_FIXED_BYTES, LEAF_BYTES, SALT_BYTES } from './leaf.js';
export { decodeEnvelope, encodeEnvelope, encodeLeaf, envelopeSize } from './leaf.js';
export type { Envelope } from './leaf.js';
export { didYouMean } from './nearest-name.js';
export { NAMED_FIELDS, validateEvent } from './validate.js';
