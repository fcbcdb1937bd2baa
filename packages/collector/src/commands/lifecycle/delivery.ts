/**
 * How a command has an action done: it asks the collector that runs on the data directory. On a mirror it asks the collectors
 * of the log, and the action is done on the mirror when that has followed.
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
/** A collector looks for requests once a second. */
const SILENT_MS = 5000;
/** A mirror that runs has followed by then. */
const FOLLOWED_MS = 60_000;
/** The longest wait for an answer. */
const ANSWERED_MS = 600_000;

/** The log that is to be acted on. @throws CommandFailure when nothing is stored, or it cannot be read. */
export function beginLog(dataDir: string): { readonly log: EventLog; readonly actions: Actions } {
  assertReadable(dataDir);
  const { events: log } = openStore(dataDir);
  const actions = log.actions?.();
  if (actions === undefined || log.ledgerId === '')
    throw new CommandFailure(`nothing is stored in ${dataDir}`, EXIT.notFound);
  return { log, actions };
}

/** The policy and the holds by which an action is decided. */
export function considered(actions: Actions): LifecycleRequest['considered'] {
  return { policy: actions.policy?.action ?? null, holds: [...actions.holds.keys()] };
}

/**
 * Commands call it before they do anything else: without a collector a request would wait for the next start.
 * Whether one runs on a database is not known here.
 * @throws CommandFailure
 */
export function assertCollectorRuns(config: Config): void {
  if (isShared(config)) return;
  const { dataDir } = config;
  const mirror = readMirrorNote(dataDir);
  if (mirror !== undefined)
    throw usage(
      `--store: ${dataDir} is a mirror of ${mirror.store}: say by which role its collectors are asked, as ` +
        'postgres://eraser@host/database',
    );
  if (isLocked(dataDir)) return;
  throw usage(
    `no collector runs on ${dataDir}, and nothing was done: start collector serve, or collector serve --no-listen if it ` +
      'must not take events, and call this again',
  );
}

/**
 * On return the action is done, or begun: then what it waits for is reported.
 * @throws CommandFailure when it is refused, no collector runs, or the signal comes. It says whether the request is withdrawn
 *   or begun; one that was begun is brought to its end once a collector runs.
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
        `collector: in progress: ${[...new Set(answer.unreached)].join(', ')} cannot be reached; it is retried automatically` +
          `${seeCertificate(action)}\n`,
      );
    if (shared !== undefined) await followed(config, action, answer);
    return answer;
  } finally {
    await shared?.close();
  }
}

/** Whether what was asked for has not begun, and no collector begins it any more. @param error that `deliver` has thrown. */
export function isOver(error: unknown): boolean {
  const isOpen = (code: ExitCode) => code === EXIT.pending || code === EXIT.failure;
  return error instanceof CommandFailure && !isOpen(error.exitCode);
}

/** @throws CommandFailure for a database of another log. */
async function requestsOf(
  config: Config,
): Promise<{ readonly requests: Requests; readonly shared?: SharedRequests }> {
  const mirror = readMirrorNote(config.dataDir);
  if (mirror === undefined) return { requests: openStore(config.dataDir).requests };
  const shared = await openSharedRequests(config);
  if (shared.ledgerId === mirror.ledger_id) return { requests: shared.requests, shared };
  await shared.close();
  throw usage(`--store: ${describeStore(config)} holds another log than the one that this is a mirror of`);
}

/** Reports the events that were to be erased and of which no action is in the log. @returns whether there is none. */
export async function isErased(dataDir: string, asked: SequenceSet): Promise<boolean> {
  const { log, actions } = beginLog(dataDir);
  await log.close();
  const left = asked.without(actions.erased);
  if (left.size === 0) return true;
  const first = [...left].slice(0, 3).map(({ first: from, end }) => eventRange(from, end - from));
  process.stderr.write(
    `collector: not erased: ${first.join(', ')}${left.size > 3 ? ', …' : ''}. What is stored there is not what was written, ` +
      'so that the key of it is not known: see collector verify\n',
  );
  return false;
}

function seeCertificate({ does, action }: Action): string {
  return does === 'erase' ? `: see collector erase --certificate ${action}` : '';
}

/** @throws CommandFailure as `deliver`; the system's error where the request could not be laid. */
async function answered(
  config: Config,
  requests: Requests,
  request: LifecycleRequest,
  signal: AbortSignal,
): Promise<LifecycleAnswer> {
  const { action } = request;
  const withdraw = () => requests.withdraw(action.action);
  // What has failed may be there all the same.
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
      const rest = `the request could not be withdrawn (${(cause as Error).message}), and a collector that runs does it${see}`;
      throw new CommandFailure(`${message}; ${rest}`, EXIT.failure, { cause });
    });
    // A collector may have been first.
    const answer = await answerTo(requests, action.action);
    if (answer !== undefined) return answer;
    if (!isWithdrawn) {
      const rest = `a collector has begun the request, and one that runs brings it to its end${see}`;
      throw new CommandFailure(`${message}; ${rest}`, EXIT.pending);
    }
    const nothing = `nothing was ${action.does === 'erase' ? 'erased' : 'changed'} by it`;
    const exitCode = error instanceof CommandFailure ? error.exitCode : EXIT.failure;
    throw new CommandFailure(`${message}; the request is withdrawn: ${nothing}`, exitCode);
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
      // Before the answer is read: a collector may give it and end.
      const runs = isRemote || isLocked(config.dataDir);
      const answer = await answerTo(requests, action);
      if (answer !== undefined) return answer;
      if (signal.aborted) throw new CommandFailure('interrupted', EXIT.interrupted);
      if (!runs) throw usage('the collector ended before it answered');
      if (waited >= ANSWERED_MS) throw usage('no collector has answered for ten minutes');
      return undefined;
    },
    `waiting for ${isRemote ? 'a collector' : 'the collector'} that runs`,
  );
}

/** On return the mirror has what the collectors have done, and has done it too. */
async function followed({ dataDir }: Config, action: Action, answer: LifecycleAnswer): Promise<void> {
  const { log } = beginLog(dataDir);
  await polled((waited) => {
    const logged = log.actions?.().logged.filter(({ said }) => said.action === action.action) ?? [];
    const waitsForDone = answer.state === 'done' && logged.some(({ said }) => said.does === 'erase');
    if (logged.some(({ said }) => said.does === 'done' || !waitsForDone)) return true;
    if (waited < FOLLOWED_MS) return undefined;
    throw new CommandFailure(
      'the collectors have it; the mirror has not followed within a minute: collector mirror does not run, or reports why ' +
        `it is stalled${seeCertificate(action)}`,
      EXIT.pending,
    );
  }, 'waiting for the mirror to follow: collector mirror has to run');
  await log.close();
}

/**
 * On return the process that writes the data directory, a collector or on a mirror `collector mirror`, has tried to remove
 * the encrypted bytes of what is erased, or has ended: then the next start does so.
 * @throws CommandFailure when the signal comes.
 */
export async function compacted(dataDir: string, action: string): Promise<void> {
  const signal = interruption();
  askForCompaction(dataDir, action);
  await polled(() => {
    if (signal.aborted) throw new CommandFailure('interrupted: the keys are destroyed', EXIT.interrupted);
    return isCompactionAsked(dataDir, action) && isLocked(dataDir) ? undefined : true;
  }, 'waiting until the encrypted bytes are removed');
}

/** Looks ten times a second until there is an answer. @param remark is printed after five seconds without one. */
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
