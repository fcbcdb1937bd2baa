/**
 * The five kinds of event.
 *
 * A kind is stored on disk as its place in this tuple: only ever append, never reorder or remove.
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
 * Bytes of kind from here on are the log's own entries: leaves like events, with a sequence and `received_at`, which
 * no sender can make and no record has. One that is not known here is proved as any leaf.
 */
export const FIRST_ENTRY_KIND = 0x80;

/** The log's own entries. Final as bytes, as the events' kinds are. */
export const ENTRY_KINDS = {
  /** What was done to stored events: kept free. */
  lifecycleAction: 0x80,
  /** The head of the access log's hash chain. */
  accessLogHead: 0x81,
} as const;

/**
 * How much is asked of an event. `minimum` asks for what the specification states; `full` asks for more
 * fields and for fixed vocabularies. What is valid under `full` is valid under `minimum`.
 */
export const PROFILES = ['minimum', 'full'] as const;

export type Profile = (typeof PROFILES)[number];

/**
 * By which door an event came: one of the five endpoints; the same, by a sender that says that it imports; the listener
 * for OTLP, where the collector made the event from a span or a log record. Only ever append.
 */
export const DOORS = ['endpoint', 'import', 'otlp'] as const;

export type Door = (typeof DOORS)[number];

/** The version of the protocol that this package describes, and of the interface description. */
export const PROTOCOL_VERSION = '0.0.1';

/** Where an event of each kind is posted, relative to the base address. Paths carry no version. */
export const EVENT_PATHS = {
  'inference-start': '/event/inference-start',
  'internal-artifact': '/event/internal-artifact',
  'human-output': '/event/human-output',
  outcome: '/event/outcome',
  'user-feedback': '/event/user-feedback',
} as const satisfies Readonly<Record<EventKind, `/event/${EventKind}`>>;
