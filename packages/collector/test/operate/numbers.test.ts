import { expect, test } from 'vitest';
import { cellsOf, NUMBERS } from '../../src/operate/numbers.js';
import { holding, PRIVACY, SHARED, WELL } from './well.js';

test('[R-833] a name is declared once, ends in _total exactly for a counter, and has a description', () => {
  const names = NUMBERS.map(({ name }) => name);
  expect(names.length).toBeGreaterThan(60);
  expect(new Set(names).size).toBe(names.length);
  expect(NUMBERS.filter(({ name, type }) => name.endsWith('_total') !== (type === 'counter'))).toEqual([]);
  expect(NUMBERS.filter(({ help }) => help.length < 9)).toEqual([]);
});

test('[R-1435] only a log in a database has the numbers of such a log', () => {
  const lines = (facts: typeof WELL, name: string) =>
    NUMBERS.find((number) => number.name === name)?.lines(facts);
  const shared = { ...WELL, ...holding({ shared: SHARED }), alarms: new Set(['lost'] as const) };
  expect(lines(shared, 'collector_replication_safe')).toEqual([{ labels: {}, value: 1 }]);
  expect(lines(shared, 'collector_unsequenced_oldest_seconds')).toEqual([{ labels: {}, value: 0.9 }]);
  expect(lines(shared, 'collector_acked_lost')).toEqual([{ labels: {}, value: 1 }]);
  for (const name of ['replication_safe', 'merge_delay_seconds', 'log_forked'])
    expect(lines(WELL, `collector_${name}`)).toEqual([]);
});

test('[R-835] a number with a cell is on the console while it is known, and one of a trouble only during it', () => {
  const labels = (facts: typeof WELL) => cellsOf(facts).map(({ label, value }) => [label, value]);
  expect(labels({ ...WELL, privacy: undefined })).toEqual([]);
  const calm = labels(WELL).map(([label]) => label);
  expect(calm).toEqual(['Key epoch since', 'Erased', 'Legal holds']);
  const troubled = { ...WELL, privacy: { ...PRIVACY, pending: 2, unreached: 1 } };
  expect(labels(troubled)).toEqual(
    expect.arrayContaining([
      ['Keys not written', 1],
      ['Not yet erased', 2],
    ]),
  );
});
