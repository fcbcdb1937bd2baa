/**
 * The five kinds of event.
 *
 * A kind is stored on disk as its index in this tuple: append only, never reorder or remove.
 */
export const EVENT_KINDS = [
  'inference-start',
  'internal-artifact',
  'human-output',
  'outcome',
  'user-feedback',
] as const;

export type EventKind = (typeof EVENT_KINDS)[number];

/**
 * Kind bytes from here on are the log's own entries: leaves like events, with a sequence and `received_at`,
 * which no sender can make and no record contains. An entry of an unknown kind is proved like any leaf.
 */
export const FIRST_ENTRY_KIND = 0x80;

/** The log's own entries. The bytes are final, like those of the kinds of event. */
export const ENTRY_KINDS = {
  /** An action on stored events, kept unencrypted. */
  lifecycleAction: 0x80,
  /** The head of the access log's hash chain. */
  accessLogHead: 0x81,
} as const;

/**
 * How strictly an event is validated. `minimum` requires what the specification states; `full` requires more
 * fields and fixed vocabularies. An event that is valid under `full` is valid under `minimum`.
 */
export const PROFILES = ['minimum', 'full'] as const;

export type Profile = (typeof PROFILES)[number];

/**
 * How an event arrived: at one of the five endpoints; there, from a sender that states that it imports; or at
 * the OTLP listener, where the collector made the event from a span or log record. Append only.
 */
export const DOORS = ['endpoint', 'import', 'otlp'] as const;

export type Door = (typeof DOORS)[number];

/** The version of the protocol, and of the interface description. */
export const PROTOCOL_VERSION = '0.0.1';

/** The path of each kind's endpoint, relative to the base address. Paths have no version. */
export const EVENT_PATHS = {
  'inference-start': '/event/inference-start',
  'internal-artifact': '/event/internal-artifact',
  'human-output': '/event/human-output',
  outcome: '/event/outcome',
  'user-feedback': '/event/user-feedback',
} as const satisfies Readonly<Record<EventKind, `/event/${EventKind}`>>;
