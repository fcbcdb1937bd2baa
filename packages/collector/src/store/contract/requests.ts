/** What commands ask of a collector to be done to stored events. */

/** An answer waits so long for who asked, in milliseconds. */
export const KEPT_ANSWER_MS = 3_600_000;

/** Where commands lay what they ask to be done to stored events, and find the answers: JSON, by the id of the action. */
export interface Requests {
  /** On return the request is durable. */
  lay(id: string, request: string): Promise<void>;
  /** Those that were not taken yet, in an order that stays. Answers that nobody has taken are cleared. */
  waiting(): Promise<readonly { readonly id: string; readonly request: string }[]>;
  /** On return it is not waiting any more. */
  take(id: string): Promise<void>;
  /** Who asked may have gone: another answer may replace it. */
  answer(id: string, answer: string): Promise<void>;
  /** Undefined while there is none. */
  answerTo(id: string): Promise<string | undefined>;
}

/** The records of legal holds of a log that has several mirrors, by the actions with which they began. */
export interface HoldRecords {
  put(action: string, record: string): Promise<void>;
  get(action: string): Promise<string | undefined>;
}

/** Of a log that several collectors write to: what is asked of them. */
export interface SharedRequests {
  readonly ledgerId: string;
  readonly requests: Requests;
  readonly holdRecords: HoldRecords;
  close(): Promise<void>;
}
