/** Spans and log records that no emitter sent. */
import type { DecodedLog, DecodedSpan } from '../../../src/otlp/decoded.js';
import { eventsOfLog, eventsOfSpan, type MappingOptions } from '../../../src/otlp/mapping/mapping.js';
import { type Event, eventOf, OPTIONS } from './drawn.js';

type Members = Readonly<Record<string, unknown>>;

const COMMON = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  droppedAttributesCount: 0,
  ...{ scope: 'hand', scopeVersion: '1.0' },
};

function withoutPrototype(members: Members): Members {
  return Object.assign(Object.create(null) as object, members);
}

export function spanWith(attributes: Members, more: Partial<DecodedSpan> = {}): DecodedSpan {
  return {
    ...COMMON,
    ...{ name: 'chat', parentSpanId: '', isParentRemote: undefined },
    ...{ start: 1_795_753_119_040_000_000n, end: 1_795_753_119_940_000_000n },
    ...{ status: { code: 0 }, events: [], resource: withoutPrototype({}) },
    ...more,
    attributes: withoutPrototype(attributes),
  };
}

export function logWith(eventName: string, more: Partial<DecodedLog>): DecodedLog {
  const empty = { attributes: withoutPrototype({}), resource: withoutPrototype({}), body: null };
  return { ...COMMON, ...empty, eventName, time: 1_795_753_119_966_000_000n, ...more };
}

export const MODEL = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'gpt-4o' };

export function answered(...texts: readonly string[]): Members {
  const messages = texts.map((content) => ({ role: 'assistant', parts: [{ type: 'text', content }] }));
  return { ...MODEL, 'gen_ai.output.messages': JSON.stringify(messages) };
}

export function eventsFor(span: DecodedSpan, options: Partial<MappingOptions> = {}): Event[] {
  return eventsOfSpan(span, { ...OPTIONS, ...options }).events.map(eventOf);
}

export function eventsForLog(log: DecodedLog, options: Partial<MappingOptions> = {}): Event[] {
  return eventsOfLog(log, { ...OPTIONS, ...options }).events.map(eventOf);
}

/** The event with the ending of a call. */
export function endOf(events: readonly Event[]): Event {
  const ends = events.filter(({ artifact, output }) => 'ending' in (artifact ?? output ?? {}));
  if (ends.length !== 1) throw new Error(`${ends.length} ends`);
  return ends[0] as Event;
}
