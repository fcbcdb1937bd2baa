/**
 * Carries out actions on stored events: erasures, retention policies, holds and their releases, rotations of
 * keys.
 *
 * Erasures are also noted beside the keys. A log that was restored from an earlier back-up is completed from
 * these notes at the next start, so that `verify` needs the log alone.
 *
 * A command in its own process submits a request, as a file in the inbox or a row of the database, and waits
 * for the answer. Requests arrive in no other way. The steps of a request, in this order:
 *
 *   begin      the requester can withdraw the request until here; the next start repeats an interrupted one
 *   look       its preconditions still hold: no hold has begun and no policy was set since it was made
 *   entry      the action is appended to the log and flushed: it is final, since each start first destroys
 *              the keys of all actions in the log
 *   note       a copy of the action is written to every reachable key directory
 *   keys       the keys are destroyed there, bucket by bucket
 *   names      a new name key is durable everywhere, derived files are sealed with it, the old is destroyed
 *   done       an entry states that no directory has the keys; retried while a directory is unreachable
 *
 * The release of a hold has the steps entry, note and keys, and then the hold's record is removed. The log
 * does not record its end: each start repeats every release, which is harmless.
 *
 * Events are stored meanwhile; no batch waits for more than one bucket of keys.
 */
import { randomUUID } from 'node:crypto';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import {
  actionFields,
  actionFrom,
  actionIn,
  type Action,
  type Actions,
  eventsOf,
  partsOf,
} from '../privacy/actions.js';
import type { TakenKeys } from '../privacy/payload-keys.js';
import { policyFrom } from '../privacy/retention-policy.js';
import type { SequenceSet } from '../privacy/sequence-set.js';
import { type Candidate } from '../store/contract/events.js';
import { KEPT_ANSWER_MS, type LifecycleKeys, type Requests } from '../store/contract/requests.js';
import { ownEntry } from './own-entry.js';
import type { PrivacyState } from './privacy-numbers.js';
import { messageOf } from '../system-code.js';

/** The state on which a request was based. The request is carried out only if it is unchanged. */
interface Preconditions {
  /** The action that set the policy; null without a policy. */
  readonly policy: string | null;
  /** The holds in force. */
  readonly holds: readonly string[];
}

export interface LifecycleRequest {
  readonly action: Action;
  readonly considered: Preconditions;
}

export type LifecycleAnswer =
  | { readonly state: 'done' }
  /** The action has begun and will be completed; these key directories cannot be reached now. */
  | { readonly state: 'pending'; readonly unreached: readonly string[] }
  | ({ readonly state: 'refused' } & Refusal);

interface Refusal {
  /**
   * `changed`: a hold has begun or a policy was set since the request was based on them; nothing was done.
   */
  readonly because: 'changed' | 'partly' | 'impossible';
  readonly reason: string;
}

export interface LifecycleOptions {
  readonly requests: Requests;
  /** The actions of the log; appended ones are added. */
  readonly actions: Actions;
  /** Undefined when payloads are not encrypted. */
  readonly keys: LifecycleKeys | undefined;
  /**
   * Whether this process does the work, if other collectors write too. On return `actions` includes theirs.
   */
  readonly isOnUs?: () => Promise<boolean>;
  /** The keys of these events, for a requester that does not know them. Events without a key are omitted. */
  readonly keysOf?: (sequences: SequenceSet) => Promise<TakenKeys[]>;
  /** The keys of each list that encrypt events of the log. Reads the log where such events may be. */
  readonly keysIn: (lists: readonly (readonly TakenKeys[])[], signal: AbortSignal) => Promise<TakenKeys[][]>;
  /** On return every derived file has its names under the newest key. */
  readonly resealNames?: (signal: AbortSignal) => Promise<void>;
  /** On return the record of a released hold is removed. */
  readonly dropHoldRecord?: (action: string) => Promise<void>;
  /** Stores an entry, durably. Rejects when it is not stored; the caller tries again. */
  readonly append: (entry: Candidate) => Promise<void>;
  /** A step failed; it is tried again. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** The number of erasures that may have left encrypted bytes in the log; present for a log in files. */
  readonly compaction?: { readonly pending: number };
  /** An action was carried out. The text names no person and no event. */
  readonly onNotice?: (message: string) => void;
}

const NOTICES: Partial<Record<Action['does'], string>> = {
  policy: 'a retention policy was set',
  hold: 'a legal hold has begun',
  release: 'a legal hold was released',
};
export const WRITER = 'lifecycle000';
const impossible = (reason: string): LifecycleAnswer => ({ state: 'refused', because: 'impossible', reason });
const DONE: LifecycleAnswer = { state: 'done' };
const PARTLY: LifecycleAnswer = {
  ...{ state: 'refused', because: 'partly' },
  reason: 'only a part was erased: a hold began or another policy was set during the erasure',
};
/** The pause before a failed step is tried again, in milliseconds. */
const REST_MS = 10_000;
/**
 * How long the key of the epoch is kept after keys were destroyed. It could open a remnant of their file.
 */
const ROTATE_AFTER_MS = 12 * 3_600_000;
/** The longest time between two rotations. */
const EPOCH_MS = 30 * 86_400_000;

/** On return a request is durable and will be carried out. */
export function layRequest(requests: Requests, { action, considered }: LifecycleRequest): Promise<void> {
  return requests.lay(action.action, JSON.stringify({ ...actionFields(action), considered }));
}

/** The answer to a request; undefined while there is none. */
export async function answerTo(requests: Requests, action: string): Promise<LifecycleAnswer | undefined> {
  const answer = await requests.answerTo(action);
  return answer === undefined ? undefined : (JSON.parse(answer) as LifecycleAnswer);
}

/** A hold whose key may still exist. */
interface Release {
  readonly said: Extract<Action, { does: 'release' }>;
  readonly unreached: readonly string[];
}

export class Lifecycle {
  readonly #options: LifecycleOptions;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  /** The earliest time of the next attempt, on the clock of `performance.now`. */
  #restUntil = 0;
  /** Number of logged actions whose requesters are known to have received any final answer. */
  #answered = 0;
  /** When the notes beside the keys are next read, on the same clock; Infinity once that is done. */
  #takeUpAt = 0;
  /** The number of actions searched for releases, and the releases whose key may still exist. */
  #released = 0;
  readonly #unreleased = new Map<string, Release>();
  /** Whether a replacement of the name key may have been interrupted. */
  #areNamesOld = true;
  /** The action of a rotation that is complete except for the name key. */
  #rotated: string | undefined;
  readonly #closing = new AbortController();

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  /** Reads requests immediately and then at each interval. */
  start(intervalMs: number): this {
    const look = () => {
      this.look().catch(() => undefined);
    };
    this.#timer = setInterval(look, intervalMs);
    look();
    return this;
  }

  /** Undefined when payloads are not encrypted. */
  get state(): PrivacyState | undefined {
    const { keys, actions } = this.#options;
    if (keys === undefined) return undefined;
    const undone = actions.undone();
    const { all: directories, inTrouble: unreached } = keys.directories;
    return {
      ...{ directories, unreached, epochBegun: keys.epochBegun, erased: actions.erased.size },
      ...{ pending: undone.length, holds: actions.holds.size },
      uncompacted: this.#options.compaction?.pending,
      pendingSince: actions.logged.find(({ said }) => said.action === undone[0])?.at,
    };
  }

  /** On return every request is carried out as completely as is possible now. Never rejects. */
  look(): Promise<void> {
    return (this.#working ??= this.#look().finally(() => (this.#working = undefined)));
  }

  /** On return no work is in progress. Call while entries can still be stored. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closing.abort();
    await this.#working;
  }

  async #look(): Promise<void> {
    const { onTrouble, isOnUs } = this.#options;
    try {
      if ((await isOnUs?.()) === false) return;
      // A step that fails must not keep the others from completing.
      const failures = [...(await this.#takeUp()), ...(await this.#takeAll())];
      await this.#finishAll(failures.length === 0);
      await this.#answerDone();
      if (failures.length > 0) throw failures[0];
    } catch (error) {
      // Requests are read at each interval; an unreachable database is reported once.
      const now = performance.now();
      if (now < this.#restUntil || this.#closing.signal.aborted) return;
      this.#restUntil = now + REST_MS;
      onTrouble('an action on stored events failed; it is tried again', error);
    }
  }

  /**
   * On return the log has every erasure that is noted beside its keys. It can lack one only after a restore
   * from an earlier back-up. A note applies only to events under the keys that it names: after a restore,
   * sequence numbers are assigned again, to events with other keys.
   * @returns the error that prevented this.
   */
  async #takeUp(): Promise<unknown[]> {
    const { keys, actions, keysIn } = this.#options;
    if (keys === undefined || performance.now() < this.#takeUpAt) return [];
    try {
      const noted = keys.stored.noted().flatMap((body) => actionIn(body) ?? []);
      for (const said of noted) {
        // A note alone must not end a hold: its writer could be someone whom the hold prevents from erasing.
        const isOver = said.does === 'release' && actions.holds.has(said.hold);
        if (isOver && keys.stored.holdKey(said.hold) === undefined) await this.#append(said);
      }
      const erasures = noted.flatMap((said) => (said.does === 'erase' ? [said] : []));
      const missing = erasures.filter((said) => eventsOf(said.keys).without(actions.erased).size > 0);
      const { signal } = this.#closing;
      const found =
        missing.length > 0
          ? await keysIn(
              missing.map((said) => said.keys),
              signal,
            )
          : [];
      for (const [i, said] of missing.entries()) {
        // Events that another collector has erased must not be erased again.
        const left = (found[i] ?? []).filter(({ sequences }) => sequences.without(actions.erased).size > 0);
        if (left.length > 0 && !signal.aborted)
          await this.#append({ ...said, part: 1, parts: 1, keys: left });
      }
      this.#takeUpAt = Infinity;
      return [];
    } catch (error) {
      this.#takeUpAt = performance.now() + REST_MS;
      return [error];
    }
  }

  /** @returns why requests could not be read; they remain. */
  async #takeAll(): Promise<unknown[]> {
    const failures: unknown[] = [];
    try {
      for (const { id, request } of await this.#options.requests.waiting())
        await this.#take(id, request).catch((error: unknown) => failures.push(error));
    } catch (error) {
      failures.push(error);
    }
    return failures;
  }

  /** @param all includes partial actions without a request. */
  async #finishAll(all: boolean): Promise<void> {
    if (performance.now() < this.#restUntil) return;
    const { actions, keys } = this.#options;
    await this.#finish(actions.undone().filter((action) => all || actions.isWhole(action)));
    if (this.#closing.signal.aborted) return;
    if (keys !== undefined && this.#areNamesOld) await this.#endOldNames(keys);
    await this.#finishReleases();
    await this.#rotateWhenDue();
  }

  async #take(id: string, text: string): Promise<void> {
    const { actions, requests, keysOf } = this.#options;
    const end = async (answer: LifecycleAnswer) => {
      await this.#answer(id, answer);
      await requests.take(id);
    };
    const request = requestIn(text);
    if (request?.action.action !== id) return end(impossible('it is not a request'));
    const { action } = request;
    const taken = action.does === 'erase' ? action.keys : [];
    const keys = (await keysOf?.(eventsOf(taken))) ?? taken;
    if (this.#refusal(request) === undefined && !(await requests.begin(id))) return;
    // No await between this check and the entry: an append by another collector makes this one fail.
    const isBegun = actions.logged.some(({ said }) => said.action === id);
    const refusal = this.#refusal(request);
    if (refusal !== undefined && !isBegun) return end({ state: 'refused', ...refusal });
    if (action.does !== 'erase') {
      let unreached: readonly string[] = [];
      try {
        if (!isBegun) unreached = await this.#do(action);
      } catch (error) {
        if (action.does !== 'rotate') throw error;
        // The log has no record of the rotation yet, so no start would complete it.
        const why = messageOf(error);
        return end(impossible(`no epoch was begun: ${why}`));
      }
      return end(unreached.length > 0 ? { state: 'pending', unreached } : DONE);
    }
    const there = new Set(actions.partsIn(id).map(({ part }) => part));
    const missing = partsOf({ ...action, keys }).filter(({ part }) => !there.has(part));
    // Events under a hold are left out, including a hold that has begun since the previous part.
    for (const part of missing) if (this.#refusal(request) === undefined) await this.#append(part);
    // An interrupted request is repeated like one that the previous process began.
    await requests.take(id);
    // The action may be complete already, if only the removal of the request failed.
    if (actions.doneAt(id) === undefined) await this.#finish([id]);
  }

  /** The reason why a request cannot be carried out; undefined when it can. */
  #refusal({ action, considered }: LifecycleRequest): Refusal | undefined {
    const { actions, keys } = this.#options;
    if (action.does === 'erase' || action.does === 'policy') {
      const isSame = [...actions.holds.keys()].every((hold) => considered.holds.includes(hold));
      const because = 'changed';
      if (!isSame) return { because, reason: 'a hold has begun meanwhile: plan again' };
      if ((actions.policy?.action ?? null) !== considered.policy)
        return { because, reason: 'another retention policy was set meanwhile: plan again' };
    }
    const needsKeys = action.does === 'erase' || action.does === 'rotate';
    if (!needsKeys || keys !== undefined) return undefined;
    return { because: 'impossible', reason: 'the payloads of this log are not encrypted' };
  }

  /** @returns the key directories that could not be reached. */
  async #do(action: Action): Promise<readonly string[]> {
    if (action.does === 'rotate') return this.#rotate(action.action);
    await this.#append(action);
    if (action.does === 'release') await this.#finishReleases();
    const done = NOTICES[action.does];
    if (done !== undefined) this.#notice(done, action.action);
    return this.#unreleased.get(action.action)?.unreached ?? [];
  }

  /**
   * On return no reachable directory has the keys of these actions, or the key of their names in derived
   * files. For actions of which this is true in every directory, the log states that they are done.
   */
  async #finish(ids: readonly string[]): Promise<void> {
    const { keys } = this.#options;
    const ended: string[] = [];
    for (const action of ids) {
      if (this.#closing.signal.aborted) return;
      const unreached = await this.#destroy(action);
      if (unreached.size > 0) await this.#wait(action, unreached);
      else ended.push(action);
    }
    const unreached = keys && ended.length > 0 ? await this.#replaceNames(keys) : [];
    for (const action of ended) {
      if (unreached.length > 0) await this.#wait(action, unreached);
      else await this.#end(action);
    }
    await this.#answerDone();
  }

  /** @returns the directories that could not be reached. */
  async #destroy(action: string): Promise<Set<string>> {
    const { actions, keys } = this.#options;
    const parts = actions.partsIn(action);
    const unreached = new Set<string>();
    // The note is written first: a log restored from an earlier back-up must find it, whenever this process
    // ends.
    for (const part of parts)
      for (const each of (await keys?.noteAction(actionFields(part))) ?? []) unreached.add(each);
    for (const each of (await keys?.destroy(parts.flatMap((part) => part.keys))) ?? []) unreached.add(each);
    return unreached;
  }

  #wait(action: string, unreached: Iterable<string>): Promise<void> {
    this.#restUntil = performance.now() + REST_MS;
    return this.#answer(action, { state: 'pending', unreached: [...unreached] });
  }

  async #end(action: string): Promise<void> {
    const { actions } = this.#options;
    // Another process may have been faster.
    if (actions.doneAt(action) !== undefined) return;
    const parts = actions.partsIn(action);
    await this.#append({ action, does: 'done' });
    const { size } = eventsOf(parts.flatMap((part) => part.keys));
    this.#notice(`stored events were erased (${size}, ${parts[0]?.reason})`, action);
  }

  /**
   * On return names in derived files are under a new key alone. @returns the directories that could not be
   * reached.
   */
  async #replaceNames(keys: LifecycleKeys): Promise<string[]> {
    this.#areNamesOld = true;
    const lacking = await keys.renewNames();
    return lacking.length > 0 ? lacking : this.#endOldNames(keys);
  }

  async #endOldNames(keys: LifecycleKeys): Promise<string[]> {
    await this.#options.resealNames?.(this.#closing.signal);
    const unreached = await keys.endOldNames();
    this.#areNamesOld = unreached.length > 0;
    if (this.#areNamesOld) this.#restUntil = performance.now() + REST_MS;
    return unreached;
  }

  /** On return each released hold has lost its key in every reachable directory, and then its record. */
  async #finishReleases(): Promise<void> {
    const { actions, keys, requests, dropHoldRecord } = this.#options;
    if (keys === undefined) return;
    for (const { said } of actions.logged.slice(this.#released))
      if (said.does === 'release') this.#unreleased.set(said.action, { said, unreached: [] });
    this.#released = actions.logged.length;
    for (const [action, { said }] of this.#unreleased) {
      const unreached = [
        ...(await keys.noteAction(actionFields(said))),
        ...(await keys.destroyHold(said.hold)),
      ];
      await dropHoldRecord?.(said.hold);
      this.#unreleased.set(action, { said, unreached });
      if (unreached.length > 0) this.#restUntil = performance.now() + REST_MS;
      else this.#unreleased.delete(action);
      const isAsked = (await answerTo(requests, action))?.state === 'pending';
      if (isAsked && unreached.length === 0) await this.#answer(action, DONE);
    }
  }

  /**
   * On return every requester has the answer to a completed request, even if the process ended before giving
   * it.
   */
  async #answerDone(): Promise<void> {
    const { actions, requests } = this.#options;
    for (const { at, said } of actions.logged.slice(this.#answered)) {
      if (said.does === 'done' && at >= Date.now() - KEPT_ANSWER_MS) {
        const given = await answerTo(requests, said.action);
        const answer = actions.isWhole(said.action) ? DONE : PARTLY;
        if (given === undefined || given.state === 'pending') await this.#answer(said.action, answer);
      }
      this.#answered++;
    }
  }

  /** Destroyed keys cannot be recovered once the key of their epoch is destroyed. */
  async #rotateWhenDue(): Promise<void> {
    const { keys, actions } = this.#options;
    if (keys === undefined) return;
    if (this.#rotated !== undefined || isRotationDue(keys, actions)) await this.#rotate(randomUUID());
  }

  async #rotate(action: string): Promise<readonly string[]> {
    const { keys } = this.#options;
    if (keys === undefined) return [];
    let unreached: readonly string[] = [];
    if (this.#rotated === undefined) {
      unreached = keys.isRotating ? await keys.finishRotation() : await keys.rotate();
      if (unreached.length === 0) this.#rotated = action;
    }
    if (this.#rotated !== undefined) unreached = await this.#replaceNames(keys);
    if (this.#rotated === undefined || unreached.length > 0) {
      this.#restUntil = performance.now() + REST_MS;
      return unreached;
    }
    await this.#append({ action: this.#rotated, does: 'rotate', epoch: keys.epoch });
    this.#notice(`epoch ${keys.epoch} of the payload keys has begun`, this.#rotated);
    this.#rotated = undefined;
    return [];
  }

  #notice(what: string, action: string): void {
    this.#options.onNotice?.(`${what}: action ${action}`);
  }

  #append(action: Action): Promise<void> {
    return this.#options.append(ownEntry(ENTRY_KINDS.lifecycleAction, WRITER, actionFields(action)));
  }

  #answer(action: string, answer: LifecycleAnswer): Promise<void> {
    return this.#options.requests.answer(action, JSON.stringify(answer));
  }
}

/** Whether a new epoch of keys must begin, or the last rotation is incomplete. */
function isRotationDue({ isRotating, epochBegun }: LifecycleKeys, actions: Actions): boolean {
  const first = actions.logged.find(({ said, at }) => said.does === 'erase' && at >= epochBegun);
  const now = Date.now();
  const isDue = first !== undefined && now - first.at >= ROTATE_AFTER_MS;
  return isRotating || isDue || now - epochBegun >= EPOCH_MS;
}

/** Undefined for a text that is not a request. */
function requestIn(text: string): LifecycleRequest | undefined {
  let read: Record<string, unknown>;
  let action: Action | undefined;
  try {
    read = Object(JSON.parse(text)) as Record<string, unknown>;
    action = actionFrom(read);
    if (action?.does === 'policy') {
      policyFrom(action.policy);
      // A value that nests too deep cannot be written.
      JSON.stringify(action.policy);
    }
  } catch {
    return undefined;
  }
  const { policy = null, holds } = Object(read['considered']) as Record<string, unknown>;
  const isText = (value: unknown): value is string => typeof value === 'string';
  // The collector sets the time of the action.
  if (action === undefined || action.does === 'done' || !(policy === null || isText(policy)))
    return undefined;
  if (!Array.isArray(holds) || !holds.every(isText)) return undefined;
  return { action, considered: { policy, holds } };
}
