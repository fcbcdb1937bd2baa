import { expect, test } from 'vitest';
import { listening, withReason } from '../src/listeners.js';

const refused = { kind: 'outcome', eventId: 'x', error: new RangeError('patient 4711') } as const;
const quarantined = { kind: 'outcome', eventId: 'x', refusal: { status: 409, at: 'now' } } as const;

test('what no one listens to is told as trouble, the same once a minute', () => {
  const troubles: string[] = [];
  const { onRefused, onQuarantine, onTrouble } = listening({ onTrouble: (what) => troubles.push(what) });
  for (let i = 0; i < 3; i++) {
    onRefused(refused);
    onQuarantine(quarantined);
    onTrouble('trouble', undefined);
  }
  expect(troubles).toEqual([
    'an event (outcome) was not captured: RangeError',
    'an event (outcome) was refused: 409',
    'trouble',
  ]);
});

test('trouble that no one listens to is a warning of the process', async () => {
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  listening({}).onTrouble('the collector did not answer', new Error('ECONNREFUSED'));
  expect(await warned).toMatchObject({
    ...{ name: 'ClinicalEventsWarning', message: 'the collector did not answer: ECONNREFUSED' },
  });
});

test('a listener that throws harms nobody', () => {
  const broken = () => {
    throw new Error('broken');
  };
  const { onRefused, onQuarantine, onTrouble } = listening({
    ...{ onRefused: broken, onQuarantine: broken, onTrouble: broken },
  });
  expect(() => {
    onRefused(refused);
    onQuarantine(quarantined);
    onTrouble('trouble', undefined);
  }).not.toThrow();
});

test('an error without words is told by its code: Node has no more of several addresses tried in vain', () => {
  const error = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
  expect(withReason('the collector did not answer', error)).toBe(
    'the collector did not answer: ECONNREFUSED',
  );
});
