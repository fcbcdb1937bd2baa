import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventStream } from '../src/streams.js';

function read(pieces: readonly string[]): string[] {
  const events: string[] = [];
  const stream = new EventStream((data) => events.push(data));
  for (const piece of pieces) stream.push(piece);
  return events;
}

test('[R-865] the data of an event is that of its data lines', () => {
  const text = ': hello\nevent: a\ndata: 1\ndata:2\ndata\nid: 7\n\n\nretry: 5\n\ndata:  3\n\ndata: cut';
  expect(read([text])).toEqual(['1\n2\n', ' 3']);
});

test('[R-865] cuts and line ends make no difference', () => {
  const line = fc.constantFrom('data: a', 'data: {"b":1}', 'data', ': c', 'event: x', '', '');
  const cuts = fc.array(fc.nat({ max: 100 }));
  fc.assert(
    fc.property(fc.array(line), fc.constantFrom('\n', '\r\n', '\r'), cuts, (lines, ending, at) => {
      const text = lines.map((each) => each + ending).join('');
      const edges = [0, ...at.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length];
      const pieces = edges.slice(1).map((edge, index) => text.slice(edges[index], edge));
      expect(read(pieces)).toEqual(read([text.replaceAll(ending, '\n')]));
    }),
  );
});
