/** The bytes of an event, within the size that the collector takes. */
import { hash } from 'node:crypto';
import { type EventKind, PROTOCOL_VERSION } from '@clinical-events/protocol';

export interface MadeEvent {
  readonly kind: EventKind;
  readonly body: Buffer;
  /** Whether contents were left out because the event would be too large. */
  readonly isShortened: boolean;
}

type Members = Readonly<Record<string, unknown>>;

export interface Draft {
  readonly kind: EventKind;
  readonly eventId: string;
  readonly runId: string;
  readonly parentId?: string | undefined;
  readonly timestamp: string;
  /** Whole milliseconds. */
  readonly latencyMs?: number | undefined;
  /** `hostname`, `app_name` and the like. */
  readonly source: Members;
  readonly instrumentation: Members;
  /** `artifact`, `inputs` and the like, by name. */
  readonly payload: Readonly<Record<string, Members | undefined>>;
}

/** The members that are words and other contents, which may be of any length. */
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
/** What an event cannot be without (packages/protocol/schemas). */
const REQUIRED = ['output_uri', 'artifact_type', 'artifact_uri', 'ending', 'feedback_type', 'outcome_type'];

/**
 * The event in bytes. One that is larger than `maxBytes` goes without its longest contents, whose length and SHA-256
 * stand in `system_metadata.instrumentation.shortened`; where that is not enough, it says no more than what it is of.
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

/** Readers refuse half a surrogate pair, which JSON.stringify writes as an escape; U+FFFD takes its place. */
function wellFormed(json: string): string {
  const text = json.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) =>
    escape.length > 2 ? '\ufffd' : escape,
  );
  // Names of members that have become the same are one member.
  return JSON.stringify(JSON.parse(text));
}

interface Content {
  readonly of: string;
  readonly name: string;
  /** Contents that are no text are JSON. */
  readonly text: string;
}

/** The longest first. */
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

/** The members of the payload that `isKept` names. */
function kept({ payload }: Draft, isKept: (of: string, name: string) => boolean): Draft['payload'] {
  return Object.fromEntries(
    Object.entries(payload).map(([of, members]) => {
      const those = Object.entries(members ?? {}).filter(([name]) => isKept(of, name));
      return [of, members && Object.fromEntries(those)];
    }),
  );
}
