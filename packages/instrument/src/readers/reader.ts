/** A reader of answers: a pure function of what the provider sent. */
import type { Fields, GrowingAnswer } from '@clinical-events/protocol/spans';

/** Reads the answers of one endpoint. */
export interface AnswerReader {
  /** Reads a whole answer. */
  whole(answer: GrowingAnswer, body: Fields): void;
  /** Reads an event of a stream. */
  piece(answer: GrowingAnswer, event: Fields): void;
  /** Puts the collected parts into the answer at the end of the stream. */
  end?(answer: GrowingAnswer): void;
}
