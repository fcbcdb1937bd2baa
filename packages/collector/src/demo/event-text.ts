/** An event as the JSON text that goes over the wire. */
import { PROTOCOL_VERSION } from '@clinical-events/protocol';
import type { OddEvent } from './oddities.js';
import { SECOND } from './period.js';
import type { Clock, Payload, PlannedEvent } from './planned-run.js';
import { WALL_AHEAD } from './working-week.js';

/**
 * Stands in `system_metadata` of everything that a demonstration sends: nothing can be taken out of the log again, and
 * so what is made up has to say that it is.
 */
const ENVIRONMENT = 'demo';

/** The body to post. The same event gives the same text. */
export function textOf(event: OddEvent): string {
  const { planned, sending, namesRun, strayParent, inOwnWords, more } = event;
  const stampedAt = event.stampedAt + (sending === 'conflict' ? SECOND : 0);
  const { sender, runId } = planned;
  const fields = {
    event_id: planned.eventId,
    // JSON.stringify leaves out what is undefined.
    run_id: namesRun ? runId : undefined,
    parent_event_id: strayParent ?? planned.parentEventId,
    timestamp: timestampOf(stampedAt, sender.clock),
    protocol_version: PROTOCOL_VERSION,
    system_metadata: {
      hostname: sender.host,
      app_name: sender.app,
      proc_id: sender.process,
      latency_ms: planned.latencyMs,
      environment: ENVIRONMENT,
    },
    ...payloadOf(planned, inOwnWords),
    ...more,
  };
  return sending === 'respelt' ? JSON.stringify(reversed(fields), undefined, 2) : JSON.stringify(fields);
}

/** The outcome as a program writes it that never heard of the vocabulary. */
function payloadOf({ payload }: PlannedEvent, inOwnWords: boolean): Payload {
  const { outcome } = payload;
  if (!inOwnWords || outcome === undefined) return payload;
  const note = 'description' in outcome ? outcome.description : undefined;
  return { outcome: { note, closed: true } };
}

/** The instant as the program writes it; all three are RFC 3339. */
function timestampOf(at: number, clock: Clock): string {
  switch (clock) {
    case 'milliseconds':
      return new Date(at).toISOString();
    case 'microseconds': {
      const micros = String((at * 7919) % SECOND).padStart(3, '0');
      return `${new Date(at).toISOString().slice(0, -1)}${micros}+00:00`;
    }
    case 'wall seconds': {
      const wall = new Date(at + WALL_AHEAD).toISOString().slice(0, 19);
      return `${wall}+01:00`;
    }
  }
}

/** The same value with the names of every object in the reverse order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).reverse();
  return Object.fromEntries(entries.map(([name, each]) => [name, reversed(each)]));
}
