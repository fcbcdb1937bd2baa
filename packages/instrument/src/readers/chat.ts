/**
 * Reads chat completions of OpenAI and of compatible servers, with their differences
 * (docs/reference/model-answers.md).
 */
import {
  asText,
  countOf,
  fields,
  type Fields,
  type GrowingAnswer,
  type GrowingChoice,
  isObject,
  list,
  type Medium,
  text,
} from '@clinical-events/protocol/spans';
import { type Asked, CallsInPieces } from './calls-in-pieces.js';
import { takeUsage } from './chat-usage.js';
import type { AnswerReader } from './reader.js';

export const CHAT: AnswerReader = {
  whole(answer, body) {
    const completion = unpacked(body);
    takeCompletion(answer, completion);
    const { choices, message, request_id } = completion;
    const objects = list(choices).filter((choice) => isChoice(answer, choice));
    // Choices are numbered by index, or else by position.
    const inOrder = objects
      .map((choice, at) => ({ choice, index: numberOf(fields(choice)['index']) ?? at }))
      .sort((a, b) => a.index - b.index);
    for (const [at, { choice }] of inOrder.entries()) takeChoice(answer, at, fields(choice), false);
    if (answer.ending) return;
    if (objects.length > 0) answer.ending = 'complete';
    else if (Array.isArray(choices)) answer.fail(NO_CHOICES);
    else if (choices !== undefined && choices !== null) answer.notRead(choices);
    else if (text(message) !== undefined) answer.fail(completion);
    // xAI: the answer is fetched later.
    else if (text(request_id) !== undefined) answer.ending = 'unfinished';
  },
  piece(answer, event) {
    const chunk = unpacked(event);
    takeCompletion(answer, chunk);
    const { choices } = chunk;
    if (choices !== undefined && choices !== null && !Array.isArray(choices)) answer.notRead(choices);
    for (const [at, choice] of list(choices).entries()) {
      if (!isChoice(answer, choice)) continue;
      takeChoice(answer, numberOf(fields(choice)['index']) ?? at, fields(choice), true);
    }
    const { begun, ended } = answer.keeping(AnswerProgress);
    // Compatible servers may leave out the mark at the end of the stream.
    if (answer.ending !== 'failed' && begun.size > 0)
      answer.ending = begun.size === ended.size ? 'complete' : undefined;
  },
  end(answer) {
    const { begun } = answer.keeping(AnswerProgress);
    if (begun.size > 0) answer.renumber(begun);
    else if (answer.ending === 'complete') answer.fail(NO_CHOICES);
  },
};

/** An empty answer, for example to a blocked prompt, is a failure. */
const NO_CHOICES = { type: 'no_choices' };

/** Reasons with which a server gives up. */
const GIVEN_UP = new Set(['error', 'abort', 'insufficient_system_resource']);

/** The state of a choice that arrives in pieces. */
class Progress {
  /** Whether its words come from the audio. */
  spoken = false;
  hasSound = false;
  readonly calls = new CallsInPieces();
}

class AnswerProgress {
  readonly begun = new Map<GrowingChoice, Progress>();
  readonly ended = new Set<GrowingChoice>();
}

/** Google sends errors in a list. */
function unpacked(body: Fields): Fields {
  return Array.isArray(body) ? fields(body[0]) : body;
}

/** An index, as a number or a text. */
function numberOf(index: unknown): number | undefined {
  return countOf(typeof index === 'string' && /^\d{1,15}$/.test(index) ? Number(index) : index);
}

function isChoice(answer: GrowingAnswer, choice: unknown): boolean {
  if (!isObject(choice) && choice !== null) answer.notRead(choice);
  return isObject(choice);
}

function takeCompletion(answer: GrowingAnswer, body: Fields): void {
  const { id, model, usage, x_groq, error, object, base_resp, choices, detail, errors } = body;
  // Azure's first chunk has empty choices.
  answer.id = text(id) || answer.id;
  answer.model = text(model) || answer.model;
  const { usage: usageOfGroq, error: errorOfGroq } = fields(x_groq);
  takeUsage(answer, usage);
  takeUsage(answer, usageOfGroq);
  const { status_code } = fields(base_resp);
  if (error) answer.fail(error);
  else if (object === 'error') answer.fail(body);
  else if (errorOfGroq) answer.fail(errorOfGroq);
  else if (status_code) answer.fail({ code: status_code });
  else if (!choices && (detail || list(errors).length > 0)) answer.fail(list(errors)[0] ?? body);
}

function takeChoice(answer: GrowingAnswer, index: number, said: Fields, streamed: boolean): void {
  const choice = answer.choice(index);
  const { begun, ended } = answer.keeping(AnswerProgress);
  const known = begun.get(choice) ?? new Progress();
  begun.set(choice, known);
  const { delta, message, text: words, usage, error, finish_reason } = said;
  takeUsage(answer, usage);
  // A server that does not really stream may send an empty delta with the whole message.
  const isDelta = isObject(delta) && (choice.text !== '' || Object.keys(fields(delta)).length > 0);
  const inPieces = streamed && (isDelta || !isObject(message));
  if (streamed && !inPieces) {
    choice.text = '';
    choice.reasoning = '';
  }
  choice.text += text(words) ?? '';
  takeMessage(answer, choice, known, fields(inPieces ? delta : message), inPieces);
  if (error) answer.fail(error);
  const reason = text(finish_reason);
  if (!reason || reason === 'null') return;
  choice.finishReason = reason;
  ended.add(choice);
  if (GIVEN_UP.has(reason) && answer.ending !== 'failed') answer.fail({ type: reason });
}

function takeMessage(
  answer: GrowingAnswer,
  choice: GrowingChoice,
  known: Progress,
  message: Fields,
  inPieces: boolean,
): void {
  const { content, refusal, audio, images, tool_calls, function_call, executed_tools } = message;
  if (typeof content === 'string') choice.text += content;
  else for (const part of packed(content)) takePart(answer, choice, part);
  refuse(answer, choice, refusal);
  const { transcript, data } = fields(audio);
  // The transcript of audio repeats the text, if there is one.
  if (text(transcript) && (known.spoken || choice.text === '')) {
    choice.text += text(transcript) ?? '';
    known.spoken = true;
  }
  if (text(data) && !known.hasSound) {
    answer.medium('audio');
    known.hasSound = true;
  }
  for (const image of list(images)) if (image) answer.medium('image');
  choice.reasoning += reasoningOf(answer, message);
  const called = list(tool_calls).filter((call) => call !== null);
  // The older form of a call may repeat the newer one.
  if (called.length === 0 && isObject(function_call)) called.push({ function: function_call, index: 0 });
  for (const [at, call] of called.entries()) {
    if (!isObject(call)) answer.notRead(call);
    else if (inPieces)
      known.calls.take(choice, numberOf(fields(call)['index']), askedOf(answer, fields(call)));
    else Object.assign(choice.toolCall(`whole ${at}`), askedOf(answer, fields(call)));
  }
  // Groq has run these tools itself.
  for (const [at, executed] of list(executed_tools).entries()) {
    const { index, type, name, arguments: asked } = fields(executed);
    const call = choice.toolCall(`executed ${numberOf(index) ?? at}`);
    call.byProvider = true;
    call.name ??= text(name) ?? text(type);
    call.input = asText(asked ?? undefined) || call.input;
  }
}

function packed(parts: unknown): readonly unknown[] {
  if (Array.isArray(parts)) return parts.filter((part) => part !== null);
  return parts === undefined || parts === null ? [] : [parts];
}

/** References to sources, and encrypted parts, which have no words. */
const WITHOUT_WORDS = /^(reference|tool_reference|redacted_thinking|reasoning\.encrypted)$/;
const REASONING = /^(text|summary_text|reasoning_text|reasoning\.text|reasoning\.summary|thinking)$/;
const MEDIUM = /^(?:input_|output_|tool_)?(image|audio|video|file|document)(?:_url)?$/;

function takePart(answer: GrowingAnswer, choice: GrowingChoice, part: unknown): void {
  const { type = 'text', text: inside, thinking, summary, refusal, transcript } = fields(part);
  const kind = text(type) ?? '';
  const words = text(part) ?? text(inside);
  const medium = MEDIUM.exec(kind)?.[1] as Medium | 'document' | undefined;
  if (words !== undefined && (kind === 'text' || kind === 'output_text')) choice.text += words;
  else if (kind === 'thinking' || kind === 'reasoning')
    choice.reasoning += reasoningIn(answer, thinking ?? summary ?? words);
  else if (kind === 'refusal') refuse(answer, choice, refusal);
  else if (medium) {
    answer.medium(medium === 'document' ? 'file' : medium);
    choice.text += text(transcript) ?? '';
  } else if (!WITHOUT_WORDS.test(kind)) answer.notRead(part);
}

function refuse(answer: GrowingAnswer, choice: GrowingChoice, refusal: unknown): void {
  const words = text(refusal);
  if (!words) return;
  choice.text += words;
  if (choice === answer.choice(0)) answer.refused = true;
}

/** The servers' names for reasoning. Some repeat it under several names. */
const REASONING_NAMES = [
  ...['reasoning_content', 'reasoning', 'reasoning_text', 'thinking'],
  ...['reasoning_details', 'thinking_blocks'],
];

function reasoningOf(answer: GrowingAnswer, message: Fields): string {
  for (const name of REASONING_NAMES) {
    const words = reasoningIn(answer, message[name]);
    if (words !== '') return words;
  }
  return '';
}

function reasoningIn(answer: GrowingAnswer, said: unknown): string {
  if (typeof said === 'string') return said;
  let words = '';
  for (const part of packed(said)) {
    const { type, text: plain, summary, thinking } = fields(part);
    const kind = text(type) ?? '';
    if (REASONING.test(kind)) words += text(plain) ?? text(summary) ?? text(thinking) ?? '';
    else if (!WITHOUT_WORDS.test(kind)) answer.notRead(part);
  }
  return words;
}

function askedOf(answer: GrowingAnswer, call: Fields): Asked {
  const { id, type, function: ofFunction, custom } = call;
  const inside = [ofFunction, custom].find(isObject);
  const { name, arguments: asked, input } = fields(inside ?? call);
  if (!inside && text(type) && text(name) === undefined) answer.notRead(call);
  return {
    id: text(id) || undefined,
    name: text(name) || undefined,
    input: asText(asked ?? input ?? undefined),
  };
}
