/**
 * The event protocol of the collector: kinds, types, errors, leaves. Pure functions and constants without
 * runtime dependencies. Validation is in `@clinical-events/protocol/validate`, proofs are in
 * `@clinical-events/protocol/verify`; the package also has the JSON Schemas and the OpenAPI document.
 */
export { ERRORS, errorBody } from './errors.js';
export type { ErrorCode, ErrorEntry } from './errors.js';
export type * from './generated/types.js';
export {
  DOORS,
  ENTRY_KINDS,
  EVENT_KINDS,
  EVENT_PATHS,
  FIRST_ENTRY_KIND,
  PROFILES,
  PROTOCOL_VERSION,
} from './kinds.js';
export type { Door, EventKind, Profile } from './kinds.js';
export { ENVELOPE_AT, ENVELOPE_FIXED_BYTES, LEAF_BYTES, SALT_BYTES } from './leaf.js';
export { decodeEnvelope, encodeEnvelope, encodeLeaf, envelopeSize } from './leaf.js';
export type { Envelope } from './leaf.js';
export { didYouMean, nearestName } from './nearest-name.js';
export { isObject, isOrganisation } from './values.js';
export type { Fields } from './values.js';
