/**
 * How a command has an action carried out: it asks the collector that runs on the data directory. On a mirror
 * it asks the collectors of the log, and the action is complete when the mirror has followed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../config.js';
import { answerTo, layRequest, type LifecycleAnswer, type LifecycleRequest } from '../../ledger/lifecycle.js';
import type { Action, Actions } from '../../privacy/actions.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import type { EventLog } from '../../store/contract/events.js';
import type { Requests, SharedRequests } from '../../store/contract/requests.js';
import { eventRange } from '../../store/findings.js';
import { describeStore, isShared } from '../../store/open.js';
import { isLocked } from '../../store/directory-lock.js';
import {
  askForCompaction,
  isCompactionAsked,
  openSharedRequests,
  openStore,
} from '../../store/open-to-read.js';
import { readMirrorNote } from '../../tree/state-files.js';
import { usage, CommandFailure, EXIT, type ExitCode, interruption } from '../exit-codes.js';
import { assertReadable } from '../regular-files.js';
import { printRemarks } from '../typed.js';

const LOOK_MS = 100;
/** A collector looks for requests once per second. */
const SILENT_MS = 5000;
/** How long to wait for a mirror to follow. */
const FOLLOWED_MS = 60_000;
/** Maximum wait for an answer. */
const ANSWERED_MS = 600_000;

/** The log to act on. @throws CommandFailure if it is empty or cannot be read. */
export function beginLog(dataDir: string): { readonly log: EventLog; readonly actions: Actions } {
  assertReadable(dataDir);
  const { events: log } = openStore(dataDir);
  const actions = log.actions?.();
  if (actions === undefined || log.ledgerId === '')
    throw new CommandFailure(`nothing is stored in ${dataDir}`, EXIT.notFound);
  return { log, actions };
}

/** The policy and the holds on which the decision is based. */
export function considered(actions: Actions): LifecycleRequest['considered'] {
  return { policy: actions.policy?.action ?? null, holds: [...actions.holds.keys()] };
}

/**
 * Called by commands before anything else: without a collector, a request would wait for the next start. For
 * a log in a database, this cannot be determined.
 * @throws CommandFailure
 */
export function assertCollectorRuns(config: Config): void {
  if (isShared(config)) return;
  const { dataDir } = config;
  const mirror = readMirrorNote(dataDir);
  if (mirror !== undefined)
    throw usage(
      `--store: ${dataDir} is a mirror of ${mirror.store}: name the role with which to ask its collectors, ` +
        'as in postgres://eraser@host/database',
    );
  if (isLocked(dataDir)) return;
  throw usage(
    `no collector is running on ${dataDir}; nothing was done: start collector serve, or collector serve ` +
      '--no-listen if it must not accept events, and run this again',
  );
}

/**
 * Delivers a request. On return the action is done, or has begun; in that case a message states what is
 * missing.
 * @throws CommandFailure if the request is refused, no collector runs, or the signal arrives. The message
 *   states whether the request was withdrawn or had begun; a collector completes one that had begun.
 */
export async function deliver(
  config: Config,
  request: LifecycleRequest,
  {
    holdRecord,
    signal = interruption(),
  }: { readonly holdRecord?: string; readonly signal?: AbortSignal } = {},
): Promise<Exclude<LifecycleAnswer, { state: 'refused' }>> {
  const { action } = request;
  assertCollectorRuns(config);
  const { requests, shared } = await requestsOf(config);
  try {
    if (holdRecord !== undefined) await shared?.holdRecords.put(action.action, holdRecord);
    const answer = await answered(config, requests, request, signal);
    if (answer.state === 'refused')
      throw new CommandFailure(answer.reason, answer.because === 'changed' ? EXIT.planAgain : EXIT.refused);
    if (answer.state === 'pending')
      process.stderr.write(
        `collector: in progress: ${[...new Set(answer.unreached)].join(', ')} cannot be reached; this is ` +
          `retried automatically${seeCertificate(action)}\n`,
      );
    if (shared !== undefined) await followed(config, action, answer);
    return answer;
  } finally {
    await shared?.close();
  }
}

/** Whether the request has not begun and never will. @param error thrown by `deliver`. */
export function isOver(error: unknown): boolean {
  const isOpen = (code: ExitCode) => code === EXIT.pending || code === EXIT.failure;
  return error instanceof CommandFailure && !isOpen(error.exitCode);
}

/** @throws CommandFailure if the database has a different log. */
async function requestsOf(
  config: Config,
): Promise<{ readonly requests: Requests; readonly shared?: SharedRequests }> {
  const mirror = readMirrorNote(config.dataDir);
  if (mirror === undefined) return { requests: openStore(config.dataDir).requests };
  const shared = await openSharedRequests(config);
  if (shared.ledgerId === mirror.ledger_id) return { requests: shared.requests, shared };
  await shared.close();
  throw usage(`--store: the log in ${describeStore(config)} is not the one that this directory mirrors`);
}

/** Reports requested events that no action in the log has erased. @returns whether all were erased. */
export async function isErased(dataDir: string, asked: SequenceSet): Promise<boolean> {
  const { log, actions } = beginLog(dataDir);
  await log.close();
  const left = asked.without(actions.erased);
  if (left.size === 0) return true;
  const first = [...left].slice(0, 3).map(({ first: from, end }) => eventRange(from, end - from));
  process.stderr.write(
    `collector: not erased: ${first.join(', ')}${left.size > 3 ? ', …' : ''}. The stored data is damaged, ` +
      `so its key cannot be identified: see collector verify\n`,
  );
  return false;
}

function seeCertificate({ does, action }: Action): string {
  return does === 'erase' ? `: see collector erase --certificate ${action}` : '';
}

/** @throws CommandFailure as `deliver`; the system's error if the request could not be written. */
async function answered(
  config: Config,
  requests: Requests,
  request: LifecycleRequest,
  signal: AbortSignal,
): Promise<LifecycleAnswer> {
  const { action } = request;
  const withdraw = () => requests.withdraw(action.action);
  // A failed write may still have created the request.
  await layRequest(requests, request).catch(async (error: unknown) => {
    await withdraw().catch(() => false);
    throw error;
  });
  try {
    return await awaitAnswer(config, requests, action.action, signal);
  } catch (error) {
    const { message } = error as Error;
    const see = seeCertificate(action);
    const isWithdrawn = await withdraw().catch((cause: unknown) => {
      const reason = (cause as Error).message;
      const rest = `the request could not be withdrawn (${reason}); a running collector carries it out${see}`;
      throw new CommandFailure(`${message}; ${rest}`, EXIT.failure, { cause });
    });
    // A collector may have answered meanwhile.
    const answer = await answerTo(requests, action.action);
    if (answer !== undefined) return answer;
    if (!isWithdrawn) {
      const rest = `a collector has begun the request and completes it while it runs${see}`;
      throw new CommandFailure(`${message}; ${rest}`, EXIT.pending);
    }
    const nothing = `nothing was ${action.does === 'erase' ? 'erased' : 'changed'}`;
    const exitCode = error instanceof CommandFailure ? error.exitCode : EXIT.failure;
    throw new CommandFailure(`${message}; the request was withdrawn: ${nothing}`, exitCode);
  }
}

async function awaitAnswer(
  config: Config,
  requests: Requests,
  action: string,
  signal: AbortSignal,
): Promise<LifecycleAnswer> {
  const isRemote = isShared(config);
  return polled(
    async (waited) => {
      // The lock is examined before the answer is read: a collector may answer and then end.
      const runs = isRemote || isLocked(config.dataDir);
      const answer = await answerTo(requests, action);
      if (answer !== undefined) return answer;
      if (signal.aborted) throw new CommandFailure('interrupted', EXIT.interrupted);
      if (!runs) throw usage('the collector ended before it answered');
      if (waited >= ANSWERED_MS) throw usage('no collector has answered for ten minutes');
      return undefined;
    },
    `waiting for ${isRemote ? 'a running collector' : 'the collector'}`,
  );
}

/** Waits until the mirror has followed what the collectors have done. */
async function followed({ dataDir }: Config, action: Action, answer: LifecycleAnswer): Promise<void> {
  const { log } = beginLog(dataDir);
  await polled((waited) => {
    const logged = log.actions?.().logged.filter(({ said }) => said.action === action.action) ?? [];
    const waitsForDone = answer.state === 'done' && logged.some(({ said }) => said.does === 'erase');
    if (logged.some(({ said }) => said.does === 'done' || !waitsForDone)) return true;
    if (waited < FOLLOWED_MS) return undefined;
    throw new CommandFailure(
      'the collectors have accepted it; the mirror has not followed within a minute: collector mirror is ' +
        `not running, or reports why it is stalled${seeCertificate(action)}`,
      EXIT.pending,
    );
  }, 'waiting for the mirror to follow: collector mirror must be running');
  await log.close();
}

/**
 * Waits until the process that writes the data directory (a collector or `collector mirror`) has tried to
 * remove the encrypted bytes of erased events, or has ended; then the next start removes them.
 * @throws CommandFailure when the signal arrives.
 */
export async function compacted(dataDir: string, action: string): Promise<void> {
  const signal = interruption();
  askForCompaction(dataDir, action);
  await polled(() => {
    if (signal.aborted) throw new CommandFailure('interrupted: the keys are destroyed', EXIT.interrupted);
    return isCompactionAsked(dataDir, action) && isLocked(dataDir) ? undefined : true;
  }, 'waiting until the encrypted bytes are removed');
}

/** Polls ten times per second. @param remark printed after five seconds without an answer. */
async function polled<Answer>(
  look: (waited: number) => Answer | undefined | Promise<Answer | undefined>,
  remark: string,
): Promise<Answer> {
  for (let waited = 0; ; waited += LOOK_MS) {
    const answer = await look(waited);
    if (answer !== undefined) return answer;
    if (waited === SILENT_MS) printRemarks([remark]);
    await sleep(LOOK_MS);
  }
}
