/** What `debug` prints: a line for each event that is captured, sent or answered, without contents. */
import type { EventKind } from '@clinical-events/protocol';
import type { Fate } from './captured.js';
import { withReason } from './listeners.js';
import { CannotSend } from './sending/endpoint.js';
import type { Trace } from './sending/sender.js';
import { wordsOf } from './sending/setback.js';
import type { SpooledEvent } from './spool/spool.js';

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface Debug extends Trace {
  captured(event: { readonly kind: EventKind; readonly eventId: string }, fate: Promise<Fate>): void;
}

export function debugging(): Debug {
  return {
    captured({ kind, eventId }, fate) {
      fate.then(
        (became) => print(`captured ${kind} ${eventId}: ${became}`),
        (error: unknown) => print(withReason(`refused ${kind} ${eventId}`, error)),
      );
    },
    sent: (event) => print(`sending ${named(event)}`),
    answered: (event, answer) => {
      const { requestId } = answer;
      const request = requestId === undefined ? '' : `, request ${requestId}`;
      print(`answered ${named(event)}: ${wordsOf(answer)}${request}`);
    },
    failed: (event, error) =>
      print(
        withReason(`${error instanceof CannotSend ? 'not sent' : 'no answer to'} ${named(event)}`, error),
      ),
  };
}

function named({ kind, body }: SpooledEvent): string {
  return `${kind} ${eventIdIn(body) ?? 'without an id'}`;
}

/** Undefined for what another writer has left in the directory and is no event. */
export function eventIdIn(body: SpooledEvent['body']): string | undefined {
  try {
    const { event_id: id } = JSON.parse(Buffer.from(body).toString()) as { readonly event_id?: unknown };
    return typeof id === 'string' && UUID.test(id) ? id : undefined;
  } catch {
    return undefined;
  }
}

/** By the console, which survives a standard error that nobody reads. */
function print(line: string): void {
  console.error(`clinical-events: ${line}`);
}
