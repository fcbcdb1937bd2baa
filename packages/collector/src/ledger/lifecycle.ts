/**
 * Does what commands ask to be done to stored events: erases them, sets the policy, begins and ends holds, rotates keys.
 *
 * Erasures are noted beside the keys. A log that was restored from before them learns them from there: a start takes into it
 * what it lacks, and `verify` needs to believe nothing but the log.
 *
 * A command in a process of its own lays a request, a file in the inbox or a row of the database, and waits for the answer.
 * No other door leads here. Of each request, in this order:
 *
 *   begin      who asked can withdraw it until here; where this process is cut off behind it, the next start begins it again
 *   look       what was considered when it was made still holds: no hold has begun since, and no other policy was set
 *   entry      the action is appended to the log and flushed: from here on it is done at any rate, by this process or by
 *              the next start, which destroys the keys of all actions before it does anything else
 *   note       it lies beside the keys, in every directory that can be reached
 *   keys       they are destroyed there, bucket by bucket
 *   names      a new key of names is durable everywhere, derived files are sealed by it, and the old one is destroyed
 *   done       an entry says that no directory has them any more; while one cannot be reached, it is tried again
 *
 * A release of a hold is entry, note, key and then the record of the hold, which is removed. Nothing in the log says that
 * it is done: a start does it again for each release, and does no harm by it.
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

/** What a request was made by the light of: none of it may have changed when it is done. */
interface Preconditions {
  /** The action by which the policy was set; null when none was. */
  readonly policy: string | null;
  /** The holds that were not over. */
  readonly holds: readonly string[];
}

export interface LifecycleRequest {
  readonly action: Action;
  readonly considered: Preconditions;
}

export type LifecycleAnswer =
  | { readonly state: 'done' }
  /** Begun, and it will be done: these directories of keys cannot be reached. */
  | { readonly state: 'pending'; readonly unreached: readonly string[] }
  | ({ readonly state: 'refused' } & Refusal);

interface Refusal {
  /** `changed`: a hold has begun, or a policy was set, since it was considered; nothing was done. */
  readonly because: 'changed' | 'partly' | 'impossible';
  readonly reason: string;
}

export interface LifecycleOptions {
  readonly requests: Requests;
  /** Those of the log; what is appended is added to them. */
  readonly actions: Actions;
  /** Undefined where payloads are not encrypted. */
  readonly keys: LifecycleKeys | undefined;
  /** Where others write the log too: whether it is on this process to work. On return `actions` has what the others did. */
  readonly isOnUs?: () => Promise<boolean>;
  /** Where who asks does not know it: by what keys events are encrypted. Those without one are left out. */
  readonly keysOf?: (sequences: SequenceSet) => Promise<TakenKeys[]>;
  /** Of each of some lists of keys those by which events of the log are encrypted. Reads the log where they may be. */
  readonly keysIn: (lists: readonly (readonly TakenKeys[])[], signal: AbortSignal) => Promise<TakenKeys[][]>;
  /** On return no derived file has a name under another key than the newest. */
  readonly resealNames?: (signal: AbortSignal) => Promise<void>;
  /** On return the record of a hold that was released is not there. */
  readonly dropHoldRecord?: (action: string) => Promise<void>;
  /** Stores an entry, durably. Rejects when it is not stored; it is tried again. */
  readonly append: (entry: Candidate) => Promise<void>;
  /** Something could not be done; it is tried again. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Of a log in files: how many erasures may have left encrypted bytes there. */
  readonly compaction?: { readonly pending: number };
  /** Something is done, and says so: of whom or what never. */
  readonly onNotice?: (message: string) => void;
}

const NOTICES: Partial<Record<Action['does'], string>> = {
  policy: 'a retention policy was set',
  hold: 'a legal hold has begun',
  release: 'a legal hold is over',
};
export const WRITER = 'lifecycle000';
const impossible = (reason: string): LifecycleAnswer => ({ state: 'refused', because: 'impossible', reason });
const DONE: LifecycleAnswer = { state: 'done' };
const PARTLY: LifecycleAnswer = {
  ...{ state: 'refused', because: 'partly' },
  reason: 'only a part of it was erased: a hold has begun meanwhile, or another policy was set',
};
/** What could not be done is tried again after so long, in milliseconds. */
const REST_MS = 10_000;
/** Keys that were destroyed have their epoch's key for so long, which a remnant of their file could be opened by. */
const ROTATE_AFTER_MS = 12 * 3_600_000;
/** And without a reason as often. */
const EPOCH_MS = 30 * 86_400_000;

/** On return a request is durable, and will be taken. */
export function layRequest(requests: Requests, { action, considered }: LifecycleRequest): Promise<void> {
  return requests.lay(action.action, JSON.stringify({ ...actionFields(action), considered }));
}

/** The answer to a request; undefined while there is none. */
export async function answerTo(requests: Requests, action: string): Promise<LifecycleAnswer | undefined> {
  const answer = await requests.answerTo(action);
  return answer === undefined ? undefined : (JSON.parse(answer) as LifecycleAnswer);
}

/** Of a hold whose key may still be somewhere. */
interface Release {
  readonly said: Extract<Action, { does: 'release' }>;
  readonly unreached: readonly string[];
}

export class Lifecycle {
  readonly #options: LifecycleOptions;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  /** Nothing is tried before this, on the clock of `performance.now`. */
  #restUntil = 0;
  /** Of so many actions of the log it is known that whoever asked has the answer, where they are done. */
  #answered = 0;
  /** When what lies beside the keys is to be taken up, on the same clock; never again, once it was. */
  #takeUpAt = 0;
  /** So many actions of the log were looked at for releases; of these the key may still be somewhere. */
  #released = 0;
  readonly #unreleased = new Map<string, Release>();
  /** Whether a replacement of the key of names may have been cut off. */
  #areNamesOld = true;
  /** The action of a rotation that is at its end, but for the key of names. */
  #rotated: string | undefined;
  readonly #closing = new AbortController();

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  /** Looks for requests at once and from now on. */
  start(intervalMs: number): this {
    const look = () => {
      this.look().catch(() => undefined);
    };
    this.#timer = setInterval(look, intervalMs);
    look();
    return this;
  }

  /** Undefined where payloads are not encrypted. */
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

  /** On return what was asked for is done, as far as it can be now. Never rejects. */
  look(): Promise<void> {
    return (this.#working ??= this.#look().finally(() => (this.#working = undefined)));
  }

  /** On return nothing is under way. To be called while entries can still be stored. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closing.abort();
    await this.#working;
  }

  async #look(): Promise<void> {
    const { onTrouble, isOnUs } = this.#options;
    try {
      if ((await isOnUs?.()) === false) return;
      // What cannot be read or done keeps nothing else from being brought to its end.
      const failures = [...(await this.#takeUp()), ...(await this.#takeAll())];
      await this.#finishAll(failures.length === 0);
      await this.#answerDone();
      if (failures.length > 0) throw failures[0];
    } catch (error) {
      // Requests are looked for each time, and it is not told each time that a database is away.
      const now = performance.now();
      if (now < this.#restUntil || this.#closing.signal.aborted) return;
      this.#restUntil = now + REST_MS;
      onTrouble('what is to be done to stored events could not be done; it is tried again', error);
    }
  }

  /**
   * On return the log has the erasures that lie beside its keys: it has them, unless it was restored from before. Of each it
   * takes the events that are encrypted by the keys which it names, because behind the end of what was restored numbers are
   * given again, to events with other keys.
   * @returns why they could not be taken up.
   */
  async #takeUp(): Promise<unknown[]> {
    const { keys, actions, keysIn } = this.#options;
    if (keys === undefined || performance.now() < this.#takeUpAt) return [];
    try {
      const noted = keys.stored.noted().flatMap((body) => actionIn(body) ?? []);
      for (const said of noted) {
        // A note alone ends no hold: who can write one could have been kept from erasing by it.
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
        // What another of them erased is not to be erased again.
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

  /** @returns why requests could not be taken: they are still there. */
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

  /** @param all also what lacks a part, which no request is there for any more. */
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
    if (request?.action.action !== id) return end(impossible('it is no request'));
    const { action } = request;
    const taken = action.does === 'erase' ? action.keys : [];
    const keys = (await keysOf?.(eventsOf(taken))) ?? taken;
    if (this.#refusal(request) === undefined && !(await requests.begin(id))) return;
    // Nothing is awaited between this and the entry: what others append meanwhile keeps it from being appended.
    const isBegun = actions.logged.some(({ said }) => said.action === id);
    const refusal = this.#refusal(request);
    if (refusal !== undefined && !isBegun) return end({ state: 'refused', ...refusal });
    if (action.does !== 'erase') {
      let unreached: readonly string[] = [];
      try {
        if (!isBegun) unreached = await this.#do(action);
      } catch (error) {
        if (action.does !== 'rotate') throw error;
        // Nothing in the log says that it was begun, so that nobody would do it later.
        const why = error instanceof Error ? error.message : String(error);
        return end(impossible(`no epoch was begun: ${why}`));
      }
      return end(unreached.length > 0 ? { state: 'pending', unreached } : DONE);
    }
    const there = new Set(actions.partsIn(id).map(({ part }) => part));
    const missing = partsOf({ ...action, keys }).filter(({ part }) => !there.has(part));
    // What a hold holds by now is not begun any more, also one that has begun since the part before.
    for (const part of missing) if (this.#refusal(request) === undefined) await this.#append(part);
    // What is not done at once is tried again as what was begun by the start before.
    await requests.take(id);
    // It is, where only taking the request had failed.
    if (actions.doneAt(id) === undefined) await this.#finish([id]);
  }

  /** Why a request cannot be done; undefined when it can. */
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

  /** @returns the directories of keys that could not be reached. */
  async #do(action: Action): Promise<readonly string[]> {
    if (action.does === 'rotate') return this.#rotate(action.action);
    await this.#append(action);
    if (action.does === 'release') await this.#finishReleases();
    const done = NOTICES[action.does];
    if (done !== undefined) this.#notice(done, action.action);
    return this.#unreleased.get(action.action)?.unreached ?? [];
  }

  /**
   * On return no directory that can be reached has the keys of these actions, nor the key that their names are under in
   * derived files; of those of which this is true for every directory, the log says that they are done.
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
    // First: a log that is restored from before must learn it, wherever this is cut off.
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
    // Another process may have been first.
    if (actions.doneAt(action) !== undefined) return;
    const parts = actions.partsIn(action);
    await this.#append({ action, does: 'done' });
    const { size } = eventsOf(parts.flatMap((part) => part.keys));
    this.#notice(`stored events were erased (${size}, ${parts[0]?.reason})`, action);
  }

  /** On return names in derived files are under a new key alone. @returns the directories that could not be reached. */
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

  /** On return each hold that was released is without its key wherever that can be reached, and then without its record. */
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

  /** On return whoever asked for what is done has the answer, also where the process was cut off before it gave it. */
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

  /** What was destroyed is gone for good with the key of its epoch. */
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
    this.#notice(`epoch ${keys.epoch} of the keys of payloads has begun`, this.#rotated);
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

/** Whether another epoch of keys is to be begun, or the last one was not brought to its end. */
function isRotationDue({ isRotating, epochBegun }: LifecycleKeys, actions: Actions): boolean {
  const first = actions.logged.find(({ said, at }) => said.does === 'erase' && at >= epochBegun);
  const now = Date.now();
  const isDue = first !== undefined && now - first.at >= ROTATE_AFTER_MS;
  return isRotating || isDue || now - epochBegun >= EPOCH_MS;
}

/** Undefined for what is none. */
function requestIn(text: string): LifecycleRequest | undefined {
  let read: Record<string, unknown>;
  let action: Action | undefined;
  try {
    read = Object(JSON.parse(text)) as Record<string, unknown>;
    action = actionFrom(read);
    if (action?.does === 'policy') {
      policyFrom(action.policy);
      // What is nested too deep cannot be written.
      JSON.stringify(action.policy);
    }
  } catch {
    return undefined;
  }
  const { policy = null, holds } = Object(read['considered']) as Record<string, unknown>;
  const isText = (value: unknown): value is string => typeof value === 'string';
  // When it is done says who does it.
  if (action === undefined || action.does === 'done' || !(policy === null || isText(policy)))
    return undefined;
  if (!Array.isArray(holds) || !holds.every(isText)) return undefined;
  return { action, considered: { policy, holds } };
}
