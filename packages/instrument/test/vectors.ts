/** Recorded answers of test/vectors/answers with their expectations, for all instrumentations. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Client } from '@clinical-events/client';
import { expect } from 'vitest';
import type { Answer, Choice, Usage } from '@clinical-events/protocol/spans';
import type { InstrumentationOptions } from '../src/model-call.js';
import { json, modelServer, recording, startStream, stream } from './recording.js';

const DIRECTORY = path.resolve('test/vectors/answers');

interface ExpectedTool {
  readonly name?: string;
  readonly id?: string;
  readonly input: string;
  readonly by_provider?: true;
  readonly invalid?: true;
}

interface ExpectedChoice {
  readonly text: string;
  readonly reasoning?: string;
  readonly finish_reason?: string;
  readonly tools?: readonly ExpectedTool[];
}

/** A missing member means that the answer must not have it. */
export interface Expected extends ExpectedChoice {
  readonly ending: string;
  readonly shown: boolean;
  readonly response_model?: string;
  readonly usage?: Usage;
  /** From the second on. */
  readonly choices?: readonly ExpectedChoice[];
  readonly refused?: true;
  readonly media?: Readonly<Record<string, number>>;
  readonly unread_parts?: number;
  readonly error_name?: string;
  readonly status?: number;
}

export interface Vector {
  readonly from: { readonly document: string; readonly read: string; readonly servers: readonly string[] };
  readonly row: string;
  readonly request: Readonly<Record<string, unknown>>;
  readonly whole?: object;
  /** Data of server-sent events; `[CUT]` breaks the connection. */
  readonly stream?: readonly (object | string)[];
  /** Of HTTP; 200 by default. */
  readonly status?: number;
  readonly expected: Expected;
}

/** All recordings of an interface: name, `whole` or `stream`, and the recording. */
export function vectorsOf(api: string): [name: string, form: 'whole' | 'stream', vector: Vector][] {
  const directory = path.join(DIRECTORY, api);
  return readdirSync(directory)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .flatMap((file) => {
      const vector = JSON.parse(readFileSync(path.join(directory, file), 'utf8')) as Vector;
      const forms = (['whole', 'stream'] as const).filter((form) => vector[form]);
      expect(forms, file).not.toEqual([]);
      return forms.map((form): [string, typeof form, Vector] => [file.replace(/\.json$/, ''), form, vector]);
    });
}

/** A server that answers every request with the recording. */
export async function serverOf(
  { whole, stream: pieces = [], status = 200 }: Vector,
  form: 'whole' | 'stream',
): Promise<{ readonly url: string }> {
  return modelServer(async (response) => {
    if (form === 'whole') {
      json(response, whole ?? {}, status);
      return;
    }
    startStream(response);
    const cut = pieces.indexOf('[CUT]');
    await stream(response, cut < 0 ? pieces : pieces.slice(0, cut));
    if (cut < 0) response.end();
    else response.destroy();
  });
}

/**
 * The captured events of one call, in the form of `Expected`.
 * @param play makes the call; its exceptions are ignored.
 */
export async function captured(
  play: (log: Client, options: InstrumentationOptions) => Promise<unknown>,
): Promise<Expected> {
  const { log, events } = await recording();
  let answer: Answer | undefined;
  const describe: InstrumentationOptions['describe'] = (call) => {
    answer = call.answer ?? answer;
    return {};
  };
  await play(log, { describe }).catch(() => undefined);
  const all = await events();
  const ends = all.filter((event) => 'ending' in (event.output ?? event.artifact ?? {}));
  expect(ends.length, 'ends of a call').toBe(1);
  const [end] = ends;
  const said = (end?.output ?? end?.artifact ?? {}) as unknown as Expected & Record<string, unknown>;
  if (!answer) throw new Error('describe was not asked');
  const [first, ...others] = answer.choices;
  if (!first) throw new Error('an answer without a choice');
  expectNoWords(JSON.stringify(all), answer);
  const traces = all.filter(({ artifact }) => artifact?.['artifact_type'] === 'reasoning_trace').length;
  expect(traces, 'reasoning traces').toBe(answer.choices.filter(({ reasoning }) => reasoning !== '').length);
  const tools = all.filter(({ artifact }) => artifact?.['artifact_type'] === 'tool_call').length;
  expect(tools, 'tool calls').toBe(answer.choices.flatMap(({ toolCalls }) => toolCalls).length);
  return {
    ending: said.ending,
    shown: end?.output !== undefined,
    ...choiceOf(first),
    ...(others.length > 0 && { choices: others.map(choiceOf) }),
    ...given(said, 'response_model', 'refused', 'media', 'unread_parts', 'error_name', 'status'),
    ...(Object.keys(said.usage ?? {}).length > 0 && { usage: said.usage }),
  };
}

export function choiceOf({ text, reasoning, finishReason, toolCalls }: Choice): ExpectedChoice {
  return {
    text,
    ...(reasoning !== '' && { reasoning }),
    ...(finishReason !== undefined && { finish_reason: finishReason }),
    ...(toolCalls.length > 0 && {
      tools: toolCalls.map(({ name, id, input, byProvider, invalid }) => ({
        ...(name !== undefined && { name }),
        ...(id !== undefined && { id }),
        input,
        ...(byProvider && { by_provider: true as const }),
        ...(invalid && { invalid: true as const }),
      })),
    }),
  };
}

function given(from: Readonly<Record<string, unknown>>, ...names: readonly string[]) {
  return Object.fromEntries(
    names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]),
  );
}

/** Shorter words may occur in a name or an id by chance. */
function expectNoWords(events: string, { choices }: Answer): void {
  for (const { text, reasoning, toolCalls } of choices) {
    for (const words of [text, reasoning, ...toolCalls.map(({ input }) => input)]) {
      if (words.length > 12) expect(events).not.toContain(JSON.stringify(words).slice(1, -1));
    }
  }
}
