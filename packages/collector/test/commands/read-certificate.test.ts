/** A certificate that is read to plan again what it names. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { certificateIn } from '../../src/commands/lifecycle/certificate.js';

describe('[R-1344] [R-2055] a certificate that is read', () => {
  const FORMAT = 'clinical-events/erasure-certificate/v1';
  const made = { format: FORMAT, log: 'ab'.repeat(16), action: randomUUID() };
  const events = [randomUUID(), randomUUID()];
  const whole = { ...made, events: 2, event_ids: { icu: events.slice(0, 1), er: events.slice(1) } };
  const read = (value: unknown) => certificateIn(Buffer.from(JSON.stringify(value)), 'c.json');

  test('names log, action and events, whatever else it contains', () => {
    expect(read({ ...whole, more: 1 })).toEqual({
      ...{ log: made.log, action: made.action },
      events: [
        { organisation: 'icu', id: events[0] },
        { organisation: 'er', id: events[1] },
      ],
    });
  });

  test.each([
    ['no JSON', Buffer.from('CERTIFICATE OF ERASURE')],
    ['JSON that ends early', Buffer.from(JSON.stringify(whole).slice(0, -1))],
    ...[
      ...[null, 7, [], {}, { ...whole, format: 'x' }, { ...whole, log: 7 }, { ...whole, log: '../x' }],
      ...[undefined, 'x', {}, [], 7, { a: 7 }, { a: [[]] }, { a: [events[0]] }, { a: [events[0], 7] }].map(
        (value) => ({ ...whole, event_ids: value }),
      ),
      { ...whole, format: 'clinical-events/certificate/v2' },
      { ...whole, format: 'clinical-events/erasure-certificate/v2' },
    ].map((value): [string, Buffer] => [JSON.stringify(value), Buffer.from(JSON.stringify(value))]),
    ['too large', Buffer.alloc((256 << 20) + 1)],
  ])('is refused if it is %s', (_, bytes) => {
    expect(() => certificateIn(bytes, 'c.json')).toThrow('c.json: ');
  });
});
