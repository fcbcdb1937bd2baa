/** What every reader of answers is: a pure function of what the provider has sent. */
import type { Fields, GrowingAnswer } from '@clinical-events/protocol/spans';

/** How answers of one address are read. */
export interface AnswerReader {
  /** An answer in one piece. */
  whole(answer: GrowingAnswer, body: Fields): void;
  /** An event of an answer in a stream. */
  piece(answer: GrowingAnswer, event: Fields): void;
  /** The stream is over, whether or not the answer is: what was only gathered is put into the answer. */
  end?(answer: GrowingAnswer): void;
}
