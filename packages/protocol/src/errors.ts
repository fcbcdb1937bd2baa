import type { ErrorBody, ErrorDetails } from './generated/types.js';

export interface ErrorEntry {
  /** The HTTP status of the answer. */
  readonly status: number;
  /** The default message of the answer. */
  readonly message: string;
  /** Whether the same bytes may be accepted when sent again later. */
  readonly retry: boolean;
  /** Whether the answer has Retry-After, because the service knows how long to wait. */
  readonly retryAfter: boolean;
  /**
   * The log level: low for faults of the caller, high for faults of the service, medium for signs of misuse.
   */
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  /** One line for the documentation: when the code is used. */
  readonly when: string;
}

/**
 * Every failure with which the service can answer. The list is closed. Status, log level and retry depend
 * only on the code. A code is never renamed and never changes its meaning.
 */
export const ERRORS = {
  malformed_request: {
    status: 400,
    message: 'The request is not well-formed HTTP.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The HTTP message cannot be parsed, or ends before its announced length.',
  },
  invalid_encoding: {
    status: 400,
    message: 'The body is not UTF-8.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The body holds bytes that are not valid UTF-8.',
  },
  invalid_json: {
    status: 400,
    message: 'The body is not JSON.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The body is empty or is not a single JSON value.',
  },
  duplicate_key: {
    status: 400,
    message: 'An object in the body has the same key twice.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'A key occurs twice in one object, so two readers could read two different events.',
  },
  nesting_too_deep: {
    status: 400,
    message: 'The body is nested too deeply.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'Arrays and objects in the body are nested deeper than the service reads.',
  },
  validation_failed: {
    status: 400,
    message: 'The event is not valid.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'A required field is missing or a field has an invalid value; details.issues lists the faults.',
  },
  invalid_compression: {
    status: 400,
    message: 'The body does not decompress.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The body does not match its Content-Encoding, or is truncated.',
  },
  key_missing: {
    status: 401,
    message: 'An API key is required in the header X-API-Key.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The request has no X-API-Key header.',
  },
  key_invalid: {
    status: 401,
    message: 'The API key is not valid.',
    retry: false,
    retryAfter: false,
    logLevel: 'warn',
    when: 'The key is malformed, unknown, or has the wrong secret.',
  },
  key_expired: {
    status: 401,
    message: 'The API key has expired.',
    retry: false,
    retryAfter: false,
    logLevel: 'warn',
    when: 'The key was valid until its expiry.',
  },
  key_revoked: {
    status: 401,
    message: 'The API key has been revoked.',
    retry: false,
    retryAfter: false,
    logLevel: 'warn',
    when: 'An operator has withdrawn the key.',
  },
  certificate_required: {
    status: 401,
    message: 'The API key is accepted only with its client certificate.',
    retry: false,
    retryAfter: false,
    logLevel: 'warn',
    when: 'The key is bound to a client certificate that the connection does not have.',
  },
  permission_denied: {
    status: 403,
    message: 'The API key does not permit this.',
    retry: false,
    retryAfter: false,
    logLevel: 'warn',
    when: 'The key is valid and lacks the permission for this kind of event; details say which one.',
  },
  not_found: {
    status: 404,
    message: 'There is no endpoint at this path.',
    retry: false,
    retryAfter: false,
    logLevel: 'debug',
    when: 'The path is not an endpoint.',
  },
  method_not_allowed: {
    status: 405,
    message: 'This path does not accept this method.',
    retry: false,
    retryAfter: false,
    logLevel: 'debug',
    when: 'The endpoint does not accept this method; the header Allow lists the accepted ones.',
  },
  request_timeout: {
    status: 408,
    message: 'The request took too long to arrive.',
    retry: true,
    retryAfter: false,
    logLevel: 'info',
    when: 'The headers or the body were not complete in time.',
  },
  event_id_conflict: {
    status: 409,
    message: 'Another event has this event_id.',
    retry: false,
    retryAfter: false,
    logLevel: 'warn',
    when: 'An event with the same event_id and other content is already stored, and is kept.',
  },
  event_erased: {
    status: 409,
    message: 'The event with this event_id was erased.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'An event with the same event_id was stored and then erased: keep no copy of it.',
  },
  body_too_large: {
    status: 413,
    message: 'The body is too large.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The body exceeds the limit, before or after decompression.',
  },
  unsupported_media_type: {
    status: 415,
    message: 'The Content-Type must be application/json.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'Content-Type is missing, not application/json (for OTLP: or application/x-protobuf), or not UTF-8.',
  },
  unsupported_content_encoding: {
    status: 415,
    message: 'The Content-Encoding must be gzip, br, zstd or identity.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'Content-Encoding names a coding that the service does not read, or more than one.',
  },
  expectation_failed: {
    status: 417,
    message: 'The only expectation that can be met is 100-continue.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The header Expect asks for something other than 100-continue.',
  },
  rate_limited: {
    status: 429,
    message: 'Too many requests with this API key.',
    retry: true,
    retryAfter: true,
    logLevel: 'warn',
    when: 'The key has exceeded its rate limit.',
  },
  headers_too_large: {
    status: 431,
    message: 'The request headers are too large.',
    retry: false,
    retryAfter: false,
    logLevel: 'info',
    when: 'The request line and headers together exceed the limit.',
  },
  internal: {
    status: 500,
    message: 'The service has failed.',
    retry: true,
    retryAfter: false,
    logLevel: 'error',
    when: 'A fault in the service itself. The event may or may not be stored; sending it again is safe.',
  },
  overloaded: {
    status: 503,
    message: 'The service is overloaded.',
    retry: true,
    retryAfter: true,
    logLevel: 'warn',
    when: 'More events wait to be stored than the queue holds.',
  },
  storage_unavailable: {
    status: 503,
    message: 'The event cannot be stored now.',
    retry: true,
    retryAfter: true,
    logLevel: 'error',
    when: 'The storage fails or is full. The event may or may not be stored; sending it again is safe.',
  },
  shutting_down: {
    status: 503,
    message: 'The service is shutting down.',
    retry: true,
    retryAfter: true,
    logLevel: 'info',
    when: 'The service is stopping and accepts no new events.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

export type ErrorCode = keyof typeof ERRORS;

/**
 * The body of a failure answer, by default with the code's message.
 *
 * The caller must ensure that neither details nor message repeat a value from the request: values may be
 * patient data, and error bodies appear in other people's logs.
 */
export function errorBody(
  code: ErrorCode,
  details?: ErrorDetails,
  message: string = ERRORS[code].message,
): ErrorBody {
  return details === undefined ? { message, code } : { message, code, details };
}
