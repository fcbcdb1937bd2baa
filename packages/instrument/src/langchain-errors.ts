/** What an error says of the call that it ended, as LangChain.js and the packages of its providers throw it. */
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
/** `AbortError` of the web, `ModelAbortError` of LangChain, and what the SDKs of providers have for it. */
const ABORT = /^(Abort|ModelAbort|APIUserAbort|RequestAborted|Cancell?ed)(Error)?$/;
const BROKEN = /^(ECONN\w+|EPIPE|UND_ERR_\w+|ERR_STREAM_\w+|APIConnectionError|ConnectionError|SocketError)$/;
const BROKEN_IN_WORDS = /terminated|premature close|socket hang up|network|connection|other side closed/i;

/** LangGraph stops by an error of its own what a person has to go on with. */
export function isPause(error: unknown): boolean {
  return PAUSES.test(text(fields(error)['name']) ?? '');
}

/**
 * @param signal what the application may stop the call by, where it is known.
 * @param hasBegun a part of the answer has come.
 */
export function endingOf(
  error: unknown,
  signal: unknown,
  hasBegun: boolean,
): Pick<Ended, 'ending' | 'error' | 'errorName' | 'status'> {
  if (isPause(error)) return { ending: 'unfinished' };
  // Another graph takes over.
  if (fields(error)['is_bubble_up'] === true || fields(error)['name'] === 'ParentCommand')
    return { ending: 'complete' };
  const { status, statusCode, message } = fields(error);
  if ([status, statusCode].some(isFailureStatus)) return { ending: 'failed', error };
  const { aborted, reason } = fields(signal);
  const names = namesOf(error);
  if (isTimeOut(error) || (aborted === true && isTimeOut(reason))) return { ...TIMED_OUT, error };
  // The words of LangChain for a signal whose reason is no error.
  if (aborted === true || message === 'Aborted' || names.some((name) => ABORT.test(name)))
    return { ending: 'aborted', error };
  const { error: body, code, cause } = fields(error);
  if (body) return { ending: 'failed', error, ...inBody(body) };
  const isBroken = names.some((name) => BROKEN.test(name)) || BROKEN_IN_WORDS.test(text(message) ?? '');
  if (!hasBegun || !isBroken) return { ending: 'failed', error };
  return { ending: 'cut off', error, errorName: word(fields(cause)['code']) ?? word(code) };
}

/** The SDKs of OpenAI and Anthropic have in their error what the server has sent in the midst of an answer. */
function inBody(body: unknown): Pick<Ended, 'errorName' | 'status'> {
  const said = new GrowingAnswer();
  said.fail(fields(body)['error'] ?? body);
  return { errorName: said.errorName, status: said.status };
}
