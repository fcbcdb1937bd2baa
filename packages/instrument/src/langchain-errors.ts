/** Determines how a call ended from the error that LangChain.js or a provider's package threw. */
import {
  fields,
  GrowingAnswer,
  isFailureStatus,
  text,
  TIMED_OUT,
  word,
} from '@clinical-events/protocol/spans';
import { isTimeOut, namesOf } from './errors.js';
import type { Ended } from './model-call.js';

const PAUSES = /^(GraphInterrupt|NodeInterrupt|GraphDrained)$/;
/** `AbortError` of the web, `ModelAbortError` of LangChain, and the names in SDKs of providers. */
const ABORT = /^(Abort|ModelAbort|APIUserAbort|RequestAborted|Cancell?ed)(Error)?$/;
const BROKEN = /^(ECONN\w+|EPIPE|UND_ERR_\w+|ERR_STREAM_\w+|APIConnectionError|ConnectionError|SocketError)$/;
const BROKEN_IN_WORDS = /terminated|premature close|socket hang up|network|connection|other side closed/i;

/** LangGraph throws an error to wait for a person. */
export function isPause(error: unknown): boolean {
  return PAUSES.test(text(fields(error)['name']) ?? '');
}

/**
 * @param signal the application's abort signal, if it is known.
 * @param hasBegun whether a part of the answer has arrived.
 */
export function endingOf(
  error: unknown,
  signal: unknown,
  hasBegun: boolean,
): Pick<Ended, 'ending' | 'error' | 'errorName' | 'status'> {
  if (isPause(error)) return { ending: 'unfinished' };
  // Another graph continues.
  if (fields(error)['is_bubble_up'] === true || fields(error)['name'] === 'ParentCommand')
    return { ending: 'complete' };
  const { status, statusCode, message } = fields(error);
  if ([status, statusCode].some(isFailureStatus)) return { ending: 'failed', error };
  const { aborted, reason } = fields(signal);
  const names = namesOf(error);
  if (isTimeOut(error) || (aborted === true && isTimeOut(reason))) return { ...TIMED_OUT, error };
  // LangChain's message for a signal whose reason is not an error.
  if (aborted === true || message === 'Aborted' || names.some((name) => ABORT.test(name)))
    return { ending: 'aborted', error };
  const { error: body, code, cause } = fields(error);
  if (body) return { ending: 'failed', error, ...inBody(body) };
  const isBroken = names.some((name) => BROKEN.test(name)) || BROKEN_IN_WORDS.test(text(message) ?? '');
  if (!hasBegun || !isBroken) return { ending: 'failed', error };
  return { ending: 'cut off', error, errorName: word(fields(cause)['code']) ?? word(code) };
}

/** Errors of the OpenAI and Anthropic SDKs contain the error that a server sends within an answer. */
function inBody(body: unknown): Pick<Ended, 'errorName' | 'status'> {
  const said = new GrowingAnswer();
  said.fail(fields(body)['error'] ?? body);
  return { errorName: said.errorName, status: said.status };
}
