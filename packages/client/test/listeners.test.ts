import { expect, test } from 'vitest';
import { listening, withReason } from '../src/listeners.js';

const REFUSAL = {
  ...{ status: 400, code: 'validation_failed', at: 'now' },
  ...{ message: 'The "patient 4711" is wrong.', details: { issues: [{ pointer: '/patient 4711' }] } },
} as const;
const refused = { kind: 'outcome', eventId: 'x', error: new RangeError('patient 4711') } as const;
const quarantined = { kind: 'outcome', eventId: 'x', refusal: REFUSAL } as const;

test('[R-861] refusals without a listener are reported as trouble, and repeats are not', () => {
  const troubles: string[] = [];
  const { onRefused, onQuarantine, onTrouble } = listening(
    { onTrouble: (what) => troubles.push(what) },
    './spool',
  );
  for (let i = 0; i < 3; i++) {
    onRefused(refused);
    onQuarantine(quarantined);
    onTrouble('trouble', undefined);
  }
  expect(troubles).toEqual([
    'an event (outcome) was not captured: RangeError',
    'an event (outcome) was refused: 400 validation_failed. It is in quarantine; to list it: ' +
      'npx collector-spool show --events ./spool',
    'trouble',
  ]);
});

test('[R-861] a quarantine in memory is not reported here, as the spool reports it', () => {
  const troubles: string[] = [];
  listening({ onTrouble: (what) => troubles.push(what) }, undefined).onQuarantine(quarantined);
  expect(troubles).toEqual([]);
});

test('trouble without a listener is a process warning', async () => {
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  listening({}, undefined).onTrouble('the collector did not answer', new Error('ECONNREFUSED'));
  expect(await warned).toMatchObject({
    ...{ name: 'ClinicalEventsWarning', message: 'the collector did not answer: ECONNREFUSED' },
  });
});

test('an error of a listener is not thrown', () => {
  const broken = () => {
    throw new Error('broken');
  };
  const { onRefused, onQuarantine, onTrouble } = listening(
    { onRefused: broken, onQuarantine: broken, onTrouble: broken },
    undefined,
  );
  expect(() => {
    onRefused(refused);
    onQuarantine(quarantined);
    onTrouble('trouble', undefined);
  }).not.toThrow();
});

test('an error without a message, as of several failed addresses, is reported by its code', () => {
  const error = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
  expect(withReason('the collector did not answer', error)).toBe(
    'the collector did not answer: ECONNREFUSED',
  );
});
