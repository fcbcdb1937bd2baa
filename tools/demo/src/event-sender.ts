/** Sends the events of a demonstration, several at a time, and counts the answers. */
import { type Answer, type EventEndpoint, nameOf } from '@clinical-events/collector/sending/event-endpoint';
import { Sender, type SendOptions } from '@clinical-events/collector/sending/sender';
import { textOf } from './event-file.js';
import type { SentEvent } from './anomalies.js';

export interface DemoSendOptions extends SendOptions {
  /** Maximum number of events in flight. */
  readonly connections: number;
}

export interface Answers {
  /** First sendings answered 201. */
  accepted: number;
  /** Repeats answered 201. */
  repeats: number;
  /** Conflicts answered 409, as expected. */
  conflicts: number;
  /** Conflicts answered 201. */
  missedConflicts: number;
  /** Outcomes in own words answered 400, by a collector that asks for profile full. */
  ownWords: number;
  /** Other answers, by code or status. */
  readonly refused: Map<string, number>;
  /** Sendings that were tried again. */
  retries: number;
}

export class EventSender {
  readonly answers: Answers = {
    ...{ accepted: 0, repeats: 0, conflicts: 0, missedConflicts: 0, ownWords: 0 },
    refused: new Map(),
    retries: 0,
  };
  readonly #sender: Sender;
  readonly #options: DemoSendOptions;

  constructor(endpoint: EventEndpoint, options: DemoSendOptions) {
    this.#sender = new Sender(endpoint, options);
    this.#options = options;
  }

  /**
   * Sends all events, and keeps the order of events with the same id. Resolves when the last is answered, or
   * earlier when stopped.
   * @throws SendingFailed when the collector stops answering or refuses all events.
   */
  async send(events: Iterable<SentEvent, void>): Promise<void> {
    const rest = events[Symbol.iterator]();
    const worker = async () => {
      while (!this.#options.stop.aborted) {
        const next = rest.next();
        if (next.done === true) return;
        const { kind, eventId } = next.value.planned;
        const answer = await this.#sender.send({ kind, eventId, body: Buffer.from(textOf(next.value)) });
        if (answer !== undefined) this.#count(next.value, answer);
      }
    };
    const workers = Array.from({ length: this.#options.connections }, worker);
    // When one worker fails, each of the others still has an event in flight, whose answer counts.
    await Promise.allSettled(workers);
    this.answers.retries = this.#sender.retries;
    await Promise.all(workers);
  }

  #count({ sending, inOwnWords }: SentEvent, answer: Answer): void {
    const { answers } = this;
    const { status } = answer;
    if (status === 201) {
      if (sending === 'conflict') answers.missedConflicts++;
      else if (sending === 'first') answers.accepted++;
      else answers.repeats++;
    } else if (status === 409 && sending === 'conflict') answers.conflicts++;
    else if (status === 400 && inOwnWords) answers.ownWords++;
    else answers.refused.set(nameOf(answer), (answers.refused.get(nameOf(answer)) ?? 0) + 1);
  }
}
