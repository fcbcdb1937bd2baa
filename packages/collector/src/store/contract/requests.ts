/** The requests of commands to a collector about stored events. */
import type { KeyObject } from 'node:crypto';
import type { StoredKeys } from '../../privacy/stored-keys.js';
import type { TakenKeys } from '../../privacy/payload-keys.js';

/** Time that an answer is kept for the command, in milliseconds. */
export const KEPT_ANSWER_MS = 3_600_000;

/** Requests and their answers: JSON texts by the id of the action. */
export interface Requests {
  /** Stores a request durably. */
  lay(id: string, request: string): Promise<void>;
  /** The requests that were not taken yet, including begun ones, in a stable order. Removes old answers. */
  waiting(): Promise<readonly { readonly id: string; readonly request: string }[]>;
  /** Called by a collector before it carries out a request. @returns false if it was withdrawn or taken. */
  begin(id: string): Promise<boolean>;
  /**
   * Called by the command.
   * @returns whether it was withdrawn; only one of `begin` and `withdraw` succeeds.
   */
  withdraw(id: string): Promise<boolean>;
  /** Removes a request. */
  take(id: string): Promise<void>;
  /** Stores an answer, in place of an earlier one. */
  answer(id: string, answer: string): Promise<void>;
  /** The answer to a request; undefined while there is none. */
  answerTo(id: string): Promise<string | undefined>;
}

/** The operations of PayloadKeys that requests need. */
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

/** The records of legal holds of a log in a database, by the ids of the holds. */
export interface HoldRecords {
  put(action: string, record: string): Promise<void>;
  get(action: string): Promise<string | undefined>;
  remove(action: string): Promise<void>;
}

/** The keys of legal holds, for a command that begins a hold. */
export interface HoldKeys {
  /** Returns the key of a hold, durable. */
  newHoldKey(action: string): Promise<KeyObject>;
  /** @returns the copies that could not be reached. */
  destroyHold(action: string): Promise<string[]>;
  close(): Promise<void>;
}

/** The requests to the collectors of a log in a database. */
export interface SharedRequests {
  readonly ledgerId: string;
  readonly requests: Requests;
  readonly holdRecords: HoldRecords;
  /**
   * @param address the database of keys; empty for the one that the log names. @param kek the value of
   * `--kek`.
   * @throws KeysUnfit, KekFault
   */
  openHoldKeys(address: string, kek: string): Promise<HoldKeys>;
  close(): Promise<void>;
}
