/** Readers accept any input: recordings with parts exchanged, removed or replaced. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runs } from '../../../test/property-runs.js';
import { fields, GrowingAnswer } from '@clinical-events/protocol/spans';
import { ModelAnswer } from '../src/readers/ai-sdk.js';
import { CHAT } from '../src/readers/chat.js';
import { MESSAGES } from '../src/readers/messages.js';
import { RESPONSES } from '../src/readers/responses.js';
import type { AnswerReader } from '../src/readers/reader.js';
import { vectorsOf } from './vectors.js';

function deep(levels: number): unknown {
  let value: unknown = {};
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { function: value };
  return value;
}

const ODD: readonly unknown[] = [
  ...[null, undefined, true, 0, -1, 1e300, '', 'words of a patient', '__proto__', 'in_progress', 'message'],
  ...[[], [[]], [null], {}, { type: 7 }, { type: 'reasoning', content: {} }, { length: -1 }],
  ...[{ text: { toString: 5 } }, { type: 'message', content: [7, null, { text: [] }] }],
  ...[1.5, 2 ** 53, '0', '99999999999999999', 'error', '{}', '}', [{}], ['x'], { length: 1e9 }, { type: {} }],
  ...[JSON.parse('{"__proto__":{"text":"x"},"constructor":1,"toString":2}') as unknown, deep(500)],
  [{ index: 2 ** 53 }, { index: '__proto__', id: '__proto__', function: { arguments: {} } }],
];

/** The value with one of its members, that of this number, exchanged for another or left out. */
function mutated(value: unknown, at: { left: number }, odd: unknown): unknown {
  if (at.left-- === 0) return odd;
  if (Array.isArray(value)) return value.map((each) => mutated(each, at, odd));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mutated(each, at, odd)]));
}

const mutation = fc.record({ at: fc.nat({ max: 200 }), odd: fc.constantFrom(...ODD) });

function read(reader: AnswerReader, form: 'whole' | 'stream', value: unknown): GrowingAnswer {
  const answer = new GrowingAnswer();
  if (form === 'whole') reader.whole(answer, fields(value));
  else for (const piece of Array.isArray(value) ? value : [value]) reader.piece(answer, fields(piece));
  reader.end?.(answer);
  return answer;
}

const gathered = new WeakMap<GrowingAnswer, ModelAnswer>();
const AI_SDK: AnswerReader = {
  whole(answer, result) {
    new ModelAnswer(answer).whole(result);
  },
  piece(answer, part) {
    const reader = gathered.get(answer) ?? new ModelAnswer(answer);
    gathered.set(answer, reader);
    reader.part(part);
  },
  end(answer) {
    gathered.get(answer)?.end();
  },
};

const READERS = [
  ['chat', CHAT],
  ['responses', RESPONSES],
  ['messages', MESSAGES],
  ['ai-sdk', AI_SDK],
] as const;

describe.each(READERS)('[R-865] %s', (api, reader) => {
  test('a mutated answer throws nothing, and its facts have no words', () => {
    const vectors = vectorsOf(api).map(([, form, vector]) => ({ form, value: vector[form] }));
    const mutations = fc.array(mutation, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.constantFrom(...vectors), mutations, ({ form, value }, changes) => {
        const sent = changes.reduce<unknown>((each, { at, odd }) => mutated(each, { left: at }, odd), value);
        const { text, reasoning, toolCalls, facts } = read(reader, form, sent);
        expect([typeof text, typeof reasoning]).toEqual(['string', 'string']);
        for (const { input, name, id } of toolCalls) {
          expect([typeof input, typeof (name ?? ''), typeof (id ?? '')]).toEqual([
            'string',
            'string',
            'string',
          ]);
        }
        expect(JSON.stringify({ ...facts, response_model: undefined })).not.toContain(' ');
      }),
      { numRuns: runs(30_000, 2000) },
    );
  });
});
