import { expect, test } from 'vitest';
import { event, id } from '../../../collector/test/records/run-events.js';
import { partOf } from '../../src/reading/run-part.js';
import { foundRun } from '../pages/sample.js';

test('[R-2049] the parts of a run have each event once with its contents, and are small', () => {
  const text = (n: number) => `text ${n} `.repeat(n % 40 === 0 ? 40_000 : 1);
  const { record } = foundRun(
    Array.from({ length: 1200 }, (_, i) =>
      event({
        ...{
          kind: i % 50 === 0 ? 'inference-start' : 'human-output',
          n: i + 1,
          parent: i === 0 ? null : id(1),
        },
        more: {
          extra: text(i),
          ...(i % 50 === 0 && { inputs: { prompt: text(i) } }),
          output: { summary: text(i) },
        },
      }),
    ),
  );
  const seen: string[] = [];
  let parts = 0;
  for (let from = 0; from < 1200; parts++) {
    const { record: shown, part } = partOf(record, from);
    expect(part.from).toBe(from);
    const [own, others] = [
      shown.metadata.events.slice(from, part.until),
      shown.metadata.events.toSpliced(from, part.until - from),
    ];
    expect(own).toEqual(record.metadata.events.slice(from, part.until));
    for (const each of others) expect([each.extra, each.system_metadata]).toEqual([{}, null]);
    expect(shown.outputs.map(({ event_id: of }) => of)).toEqual(
      own.filter(({ kind }) => kind === 'human-output').map(({ event_id: of }) => of),
    );
    expect(JSON.stringify(shown).length).toBeLessThan(3 << 20);
    seen.push(...own.map(({ event_id: of }) => of));
    from = part.until;
  }
  expect(seen).toEqual(record.metadata.events.map(({ event_id: of }) => of));
  expect(parts).toBeGreaterThan(10);
  expect(partOf(record, 99_999).part).toEqual({ from: 1199, until: 1200 });
});
