/** The reader of chat completions, asked directly: what no library would let through. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { random, runs } from '../../../test/property-runs.js';
import { GrowingAnswer } from '../src/answer.js';
import { CHAT } from '../src/readers/chat.js';
import { vectorsOf } from './vectors.js';

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

function deep(levels: number): Json {
  let value: Json = {};
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { function: value };
  return value;
}

const HOSTILE: readonly Json[] = [
  ...[null, true, 0, -1, 1.5, 2 ** 53, 1e308, '', '0', '99999999999999999', 'error', '[DONE]', '{}', '}'],
  ...[[], {}, [null], [[]], [{}], ['x'], { length: 1e9 }, { type: {} }, { type: 'text', text: [] }],
  ...[JSON.parse('{"__proto__":{"text":"x"},"constructor":1,"toString":2}') as Json, deep(4000)],
  ...[[{ index: 2 ** 53 }, { index: '__proto__', id: '__proto__', function: { arguments: {} } }]],
];

/** One place of it is replaced, left out or said twice. */
function mutated(value: Json): Json {
  if (random.chance(12) || typeof value !== 'object' || value === null) return random.of(HOSTILE);
  if (Array.isArray(value)) {
    const at = random.below(value.length + 1);
    if (at === value.length) return [...value, random.of(HOSTILE)];
    if (random.chance(4)) return [...value, value[at] ?? null];
    return value.map((item, index) => (index === at ? mutated(item) : item));
  }
  const names = Object.keys(value);
  if (names.length === 0) return random.of(HOSTILE);
  const name = random.of(names);
  const { [name]: chosen = null, ...others } = value;
  return random.chance(5) ? others : { ...others, [name]: mutated(chosen) };
}

function read(form: 'whole' | 'stream', said: Json): GrowingAnswer {
  const answer = new GrowingAnswer();
  if (form === 'whole') CHAT.whole(answer, Object(said) as never);
  else for (const event of said as Json[]) CHAT.piece(answer, Object(event) as never);
  CHAT.end?.(answer);
  return answer;
}

describe('[R-1601] the reader of chat completions', () => {
  const vectors = vectorsOf('chat').map(([, form, vector]) => ({ form, vector }));

  test('throws at nothing, and gives no words to events', () => {
    for (let run = 0; run < runs(40_000, 4000); run++) {
      const { form, vector } = random.of(vectors);
      const events = (vector.stream ?? []).filter((event) => typeof event === 'object') as Json[];
      let said = form === 'whole' ? (vector.whole as Json) : events;
      for (let times = random.below(3); times >= 0; times--) {
        const at = random.below(events.length || 1);
        said =
          form === 'whole'
            ? mutated(said)
            : (said as Json[]).map((event, index) => (index === at ? mutated(event) : event));
      }
      const answer = read(form, said);
      const facts = JSON.stringify([answer.facts, ...answer.choices.map((choice) => choice.facts)]);
      const { text, reasoning = '' } = vector.expected;
      for (const words of [text, reasoning, ...answer.choices.flatMap((choice) => [choice.text])])
        if (words.includes(' ')) expect(facts).not.toContain(JSON.stringify(words).slice(1, -1));
      expect(answer.toolCalls.every(({ input }) => typeof input === 'string')).toBe(true);
    }
  });

  test('is not slow with many and long pieces', () => {
    const call = (index: number, more: object) => ({ index: 0, delta: { tool_calls: [{ index, ...more }] } });
    const pieces = Array.from({ length: 20_000 }, (_, at) =>
      call(at % 3 === 0 ? at : 0, {
        id: `c${at % 7}`,
        function: { name: 'f', arguments: at % 2 ? '{' : '}' },
      }),
    );
    const long = { function: { name: 'f', arguments: `{"a":"${'x'.repeat(50)}` } };
    const named = Array.from({ length: 20_000 }, () => call(0, long));
    const started = performance.now();
    const answer = read(
      'stream',
      [...pieces, ...named].map((choice) => ({ choices: [choice] })),
    );
    expect(answer.toolCalls.length).toBeLessThanOrEqual(4096);
    expect(performance.now() - started).toBeLessThan(15_000);
  });
});

test('[R-1600] every recording of chat completions stands in the table, and every row has one', () => {
  const table =
    readFileSync('docs/reference/model-answers.md', 'utf8')
      .split('## ')
      .find((section) => section.startsWith('Chat completions')) ?? '';
  const named = [...table.matchAll(/\| `([\w-]+)` +\|$/gm)].map(([, name]) => name);
  expect(named.sort()).toEqual([...new Set(vectorsOf('chat').map(([name]) => name))].sort());
});
