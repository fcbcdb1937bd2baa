/** The reader of chat completions, with input that no library passes on. */
import { expect, test } from 'vitest';
import { GrowingAnswer } from '@clinical-events/protocol/spans';
import { CHAT } from '../src/readers/chat.js';

test('[R-865] many and long pieces do not exceed the limit of tool calls', () => {
  const call = (index: number, more: object) => ({ index: 0, delta: { tool_calls: [{ index, ...more }] } });
  const pieces = Array.from({ length: 20_000 }, (_, at) =>
    call(at % 3 === 0 ? at : 0, {
      id: `c${at % 7}`,
      function: { name: 'f', arguments: at % 2 ? '{' : '}' },
    }),
  );
  const long = { function: { name: 'f', arguments: `{"a":"${'x'.repeat(50)}` } };
  const named = Array.from({ length: 20_000 }, () => call(0, long));
  const answer = new GrowingAnswer();
  for (const choice of [...pieces, ...named]) CHAT.piece(answer, { choices: [choice] });
  expect(answer.toolCalls.length).toBeLessThanOrEqual(4096);
});
