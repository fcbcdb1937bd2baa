/** Encodes an event within the size that the collector accepts. */
import { hash } from 'node:crypto';
import { type EventKind, PROTOCOL_VERSION } from '@clinical-events/protocol';

export interface MadeEvent {
  readonly kind: EventKind;
  readonly body: Buffer;
  /** Whether contents were omitted because the event would be too large. */
  readonly isShortened: boolean;
}

type Members = Readonly<Record<string, unknown>>;

export interface Draft {
  readonly kind: EventKind;
  readonly eventId: string;
  readonly runId: string;
  readonly parentId?: string | undefined;
  readonly timestamp: string;
  /** The latency in whole milliseconds. */
  readonly latencyMs?: number | undefined;
  /** Members such as `hostname` and `app_name`. */
  readonly source: Members;
  readonly instrumentation: Members;
  /** `artifact`, `inputs` and other objects, by name. */
  readonly payload: Readonly<Record<string, Members | undefined>>;
}

/** The members with content, which may have any length. */
const CONTENTS: Readonly<Record<string, readonly string[]>> = {
  inputs: ['prompt', 'messages', 'system_instructions'],
  output: ['summary'],
  artifact: [
    ...['text', 'input', 'result', 'query', 'body'],
    ...['input_messages', 'output_messages', 'system_instructions'],
  ],
  feedback: ['comment'],
  outcome: ['description'],
};
/** The members that every event needs (packages/protocol/schemas). */
const REQUIRED = ['output_uri', 'artifact_type', 'artifact_uri', 'ending', 'feedback_type', 'outcome_type'];

/**
 * The event as bytes. An event larger than `maxBytes` loses its longest contents, whose length and SHA-256
 * are recorded in `system_metadata.instrumentation.shortened`; if that is not enough, only the required
 * members remain.
 */
export function makeEvent(draft: Draft, maxBytes: number): MadeEvent {
  const { kind } = draft;
  const body = bytesOf(draft);
  if (body.length <= maxBytes) return { kind, body, isShortened: false };
  const contents = contentsOf(draft.payload);
  const shortened: Record<string, unknown> = {};
  for (const { of, name, text } of contents) {
    shortened[`${of}.${name}`] = { characters: text.length, sha256: hash('sha256', text) };
    const made = bytesOf(without(draft, shortened));
    if (made.length <= maxBytes) return { kind, body: made, isShortened: true };
  }
  return { kind, body: bytesOf(bare(draft)), isShortened: true };
}

function bytesOf({ eventId, runId, parentId, timestamp, latencyMs, ...draft }: Draft): Buffer {
  const { source, instrumentation, payload } = draft;
  const text = JSON.stringify({
    event_id: eventId,
    run_id: runId,
    parent_event_id: parentId,
    timestamp,
    protocol_version: PROTOCOL_VERSION,
    system_metadata: { ...source, latency_ms: latencyMs, instrumentation },
    ...payload,
  });
  return Buffer.from(text.includes('\\ud') ? wellFormed(text) : text);
}

/**
 * Replaces each unpaired surrogate with U+FFFD: readers refuse one, and JSON.stringify writes it as an
 * escape.
 */
function wellFormed(json: string): string {
  const text = json.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) =>
    escape.length > 2 ? '\ufffd' : escape,
  );
  // Names that become equal are one member.
  return JSON.stringify(JSON.parse(text));
}

interface Content {
  readonly of: string;
  readonly name: string;
  /** Contents that are not text are written as JSON. */
  readonly text: string;
}

/** The contents of a payload, the longest first. */
function contentsOf(payload: Draft['payload']): Content[] {
  const found = Object.entries(payload).flatMap(([of, members]) =>
    (CONTENTS[of] ?? []).flatMap((name) => {
      const value = members?.[name];
      if (value === undefined) return [];
      return { of, name, text: typeof value === 'string' ? value : JSON.stringify(value) };
    }),
  );
  return found.sort((a, b) => b.text.length - a.text.length);
}

function without(draft: Draft, shortened: Members): Draft {
  const instrumentation = { ...draft.instrumentation, shortened };
  return { ...draft, instrumentation, payload: kept(draft, (of, name) => !(`${of}.${name}` in shortened)) };
}

function bare(draft: Draft): Draft {
  const { by, trace_id, span_id } = draft.instrumentation;
  return {
    ...draft,
    source: {},
    instrumentation: { by, trace_id, span_id, shortened: true },
    payload: kept(draft, (_, name) => REQUIRED.includes(name)),
  };
}

/** The members of the payload that satisfy `isKept`. */
function kept({ payload }: Draft, isKept: (of: string, name: string) => boolean): Draft['payload'] {
  return Object.fromEntries(
    Object.entries(payload).map(([of, members]) => {
      const those = Object.entries(members ?? {}).filter(([name]) => isKept(of, name));
      return [of, members && Object.fromEntries(those)];
    }),
  );
}
