/** Sends the events of a demonstration, some at a time, and remembers how each was answered. */
import { type Answer, type EventEndpoint, nameOf } from '@clinical-events/collector/sending/event-endpoint';
import { Sender, type SendOptions } from '@clinical-events/collector/sending/sender';
import { textOf } from './event-file.js';
import type { SentEvent } from './anomalies.js';

export interface DemoSendOptions extends SendOptions {
  /** Events under way at once at most. */
  readonly connections: number;
}

/** How the sendings were answered. */
export interface Answers {
  /** 201, events that were sent for the first time. */
  accepted: number;
  /** 201, events that had been sent before. */
  repeats: number;
  /** 409 where that was meant. */
  conflicts: number;
  /** 201 where a conflict was meant. */
  missedConflicts: number;
  /** 400 to what is not valid under profile full, which this collector then asks for. */
  ownWords: number;
  /** All else, by code or status. */
  readonly refused: Map<string, number>;
  /** Sendings beyond the first of the same. */
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
   * Sends all events, those of the same id in their order: a conflict is only one when the first event stands. Resolves
   * when the last is answered, or sooner when stopped.
   * @throws SendingFailed when the collector has gone, or answers like none.
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
    // The others have an event each under way, whose answers count.
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
