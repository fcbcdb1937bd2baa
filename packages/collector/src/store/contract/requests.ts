/** What commands ask of a collector to be done to stored events. */
import type { KeyObject } from 'node:crypto';
import type { StoredKeys } from '../../privacy/stored-keys.js';
import type { TakenKeys } from '../../privacy/payload-keys.js';

/** An answer waits so long for who asked, in milliseconds. */
export const KEPT_ANSWER_MS = 3_600_000;

/** Where commands lay what they ask to be done to stored events, and find the answers: JSON, by the id of the action. */
export interface Requests {
  /** On return the request is durable. */
  lay(id: string, request: string): Promise<void>;
  /** Those that were not taken yet, begun ones too, in an order that stays. Answers that nobody has taken are cleared. */
  waiting(): Promise<readonly { readonly id: string; readonly request: string }[]>;
  /** For a collector, before it does what is asked. @returns false where it was withdrawn or taken; it is not to be done. */
  begin(id: string): Promise<boolean>;
  /** For who asked. @returns whether it is gone for good and was not begun: of this and `begin`, one alone has its way. */
  withdraw(id: string): Promise<boolean>;
  /** On return it is not waiting any more. */
  take(id: string): Promise<void>;
  /** Who asked may have gone: another answer may replace it. */
  answer(id: string, answer: string): Promise<void>;
  /** Undefined while there is none. */
  answerTo(id: string): Promise<string | undefined>;
}

/** The keys that are destroyed or replaced, as PayloadKeys has it. */
export interface LifecycleKeys {
  readonly stored: Pick<StoredKeys, 'noted' | 'holdKey'>;
  destroy(taken: readonly TakenKeys[]): Promise<string[]>;
  destroyHold(action: string): Promise<string[]>;
  renewNames(): Promise<string[]>;
  endOldNames(): Promise<string[]>;
  noteAction(body: object): Promise<string[]>;
  rotate(): Promise<string[]>;
  finishRotation(): Promise<string[]>;
  readonly isRotating: boolean;
  readonly epoch: number;
  readonly epochBegun: number;
  readonly directories: { readonly all: number; readonly inTrouble: number };
}

/** The records of legal holds of a log that has several mirrors, by the actions with which they began. */
export interface HoldRecords {
  put(action: string, record: string): Promise<void>;
  get(action: string): Promise<string | undefined>;
  /** On return it is not there. */
  remove(action: string): Promise<void>;
}

/** The keys of legal holds, for a command that begins one. */
export interface HoldKeys {
  /** On return the key is durable. */
  newHoldKey(action: string): Promise<KeyObject>;
  /** @returns the copies that could not be reached. */
  destroyHold(action: string): Promise<string[]>;
  close(): Promise<void>;
}

/** Of a log that several collectors write to: what is asked of them. */
export interface SharedRequests {
  readonly ledgerId: string;
  readonly requests: Requests;
  readonly holdRecords: HoldRecords;
  /**
   * @param address of the database of keys; empty: as the log says. @param kek as `--kek` has it.
   * @throws KeysUnfit, KekFault
   */
  openHoldKeys(address: string, kek: string): Promise<HoldKeys>;
  close(): Promise<void>;
}
