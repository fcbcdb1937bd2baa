/** The file of an erasure plan: what a person may change in it, and when it is refused. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { Random, runs, SEED } from '../../../../test/property-runs.js';
import {
  type Plan,
  PLAN_FORMAT,
  type PlanEvent,
  planFile,
  planTable,
  planText,
  readPlan,
} from '../../src/commands/lifecycle/plan-file.js';
import { scratch } from '../running/scratch.js';

const event = (sequence: number, more: Partial<PlanEvent> = {}): PlanEvent => ({
  ...{ sequence, id: `e${sequence}`, run: 'r1', organisation: 'icu', kind: 'outcome' },
  ...{ received_at: '2026-03-04T05:06:07.000Z', size: 500, because: 'target', about: 'this person' },
  ...{ blocked: [], why: '', erase: true, ...more },
});

const PLAN: Plan = {
  ...{ format: PLAN_FORMAT, log: 'ab12', made: '2026-03-04T05:06:08.000Z', through: 9, policy: null },
  ...{
    holds: ['h1', 'h2'],
    asked: 'a subject (2 ids)',
    searched: 'every payload',
    unread: 1,
    unmatched: [2],
  },
  late: [{ action: 'a1', events: 3 }],
  events: [
    event(1, { kind: 'inference-start' }),
    event(4, { because: 'mention', about: 'someone else', why: 'mentioned only', erase: false }),
    event(7, { blocked: [{ by: 'floor', name: 'law', until: '2036-01-01T00:00:00.000Z' }] }),
    event(8, {
      blocked: [{ by: 'hold', name: 'CASE-7', until: null }],
      why: 'on hold by CASE-7',
      erase: false,
    }),
  ],
};
const WRITTEN = planFile(PLAN);
const TEXT = planText(WRITTEN);

let file: string;
beforeEach(() => {
  file = path.join(scratch(), 'plan.json');
});

function read(text: string | Buffer) {
  fs.writeFileSync(file, text);
  return readPlan(file);
}

const refused = (text: string | Buffer, why: string | RegExp) => {
  let error: unknown;
  try {
    read(text);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toMatchObject({
    name: 'CommandFailure',
    exitCode: 2,
    message: expect.stringMatching(why) as string,
  });
};

describe('[R-1580] a plan that is read', () => {
  test('is what was written, in any layout', () => {
    expect(read(TEXT)).toEqual(WRITTEN);
    const { events, ...rest } = JSON.parse(TEXT) as Record<string, unknown>;
    expect(read(JSON.stringify({ events, ...rest }, undefined, '\t'))).toEqual(WRITTEN);
    const { format, ...others } = rest;
    expect(read(JSON.stringify({ ...others, events, format }))).toEqual(WRITTEN);
    expect(read(TEXT.replace(/"kind":"outcome",(.*?),"size":500/, '"size":500,$1,"kind":"outcome"'))).toEqual(
      WRITTEN,
    );
    expect(read(TEXT.replace('"icu"', String.raw`"\u0069cu"`))).toEqual(WRITTEN);
  });

  test('keeps its hash with other marks, which have their own hash', () => {
    const marked = read(
      TEXT.replace('"why":"mentioned only","erase":false', '"why":"mentioned only","erase":true'),
    );
    expect(marked.plan.events.map(({ erase }) => erase)).toEqual([true, true, true, false]);
    expect(marked.sha256).toBe(WRITTEN.sha256);
    expect(marked.marks).not.toBe(WRITTEN.marks);
  });

  const first = JSON.stringify(PLAN.events[0]);
  test.each([
    [
      'an added event',
      TEXT.replace(first, `${first},${first.replace('"sequence":1', '"sequence":2')}`),
      /more than its marks/,
    ],
    ['a removed event', TEXT.replace(`    ${first},\n`, ''), /more than its marks/],
    [
      'two events in another order',
      TEXT.replace(/( +\{"sequence":1.*),\n( +\{"sequence":4.*),\n/, '$2,\n$1,\n'),
      /more than its marks/,
    ],
    ['a changed id', TEXT.replace('"id":"e4"', '"id":"e5"'), /more than its marks/],
    ['another run', TEXT.replace('"run":"r1"', '"run":"r2"'), /more than its marks/],
    [
      'another organisation',
      TEXT.replace('"organisation":"icu"', '"organisation":"ward"'),
      /more than its marks/,
    ],
    ['another log', TEXT.replace('"log": "ab12"', '"log": "ab13"'), /more than its marks/],
    ['another sequence', TEXT.replace('"through": 9', '"through": 8'), /more than its marks/],
    ['a removed hold', TEXT.replace('"h1",', ''), /more than its marks/],
    ['a removed block', TEXT.replace(/\{"by":"hold"[^}]*\}/, ''), /more than its marks/],
    ['fewer unread payloads', TEXT.replace('"unread": 1', '"unread": 0'), /more than its marks/],
    ['another hash', TEXT.replace(WRITTEN.sha256, '0'.repeat(64)), /more than its marks/],
    ['no hash', TEXT.replace(/ {2}"sha256".*\n/, ''), /more than its marks/],
    ['a mark that is not a boolean', TEXT.replace('"erase":true', '"erase":"true"'), /members/],
    ['an unknown kind', TEXT.replace('"kind":"outcome"', '"kind":"log"'), /more than its marks/],
    [
      'events that are not a list',
      TEXT.replace('"events": [\n', '"events": {"0":[\n').replace(/\]\n\}\n$/, ']}}'),
      /members/,
    ],
    ['two marks of an event', TEXT.replace('"erase":true', '"erase":false,"erase":true'), /duplicate/],
    ['two lists of events', TEXT.replace('"events": [\n', '"events": [],\n"events": [\n'), /duplicate/],
    [
      'a name twice in different spellings',
      TEXT.replace('"log"', String.raw`"l\u006fg": "x", "log"`),
      /duplicate/,
    ],
    ['a truncated text', TEXT.slice(0, -20), /not JSON, or truncated/],
    ['nothing', '', /not JSON/],
    ['no JSON', 'RUN  ORGANISATION', /not JSON/],
    ['null', 'null', /format/],
    ['a list', '[]', /format/],
    ['a certificate', TEXT.replace('erasure-plan/v1', 'certificate/v1'), /format/],
    ['lists in lists', '['.repeat(3_000_000), /not JSON/],
    ['objects in objects', `{"a":`.repeat(1_000_000), /not JSON/],
    ['no UTF-8', Buffer.from(`\ufeff${TEXT}`, 'utf16le'), /UTF-8/],
  ])('is refused if it has %s', (_, text, why) => {
    refused(text, why);
  });

  test('is refused if it is not a readable file, and the file is named', () => {
    for (const where of [path.dirname(file), path.join(file, 'x'), '/dev/null', `${file}.not-there`])
      expect(() => readPlan(where)).toThrow(where);
  });

  test.each(Array.from({ length: runs(100, 10) }, (_, i) => SEED + i))(
    'is refused or the same after any mutation of its bytes (seed %i)',
    (seed) => {
      const random = new Random(seed);
      for (let i = 0; i < 200; i++) {
        const bytes = Buffer.from(TEXT);
        const at = random.below(bytes.length);
        const length = 1 + random.below(40);
        const other = bytes.subarray(random.below(bytes.length)).subarray(0, length);
        const [before, behind] = [bytes.subarray(0, at), bytes.subarray(at)];
        const mutated = random.of([
          () => Buffer.concat([before, Buffer.from([random.below(256)]), behind.subarray(1)]),
          () => Buffer.concat([before, behind.subarray(length)]),
          () => Buffer.concat([before, other, behind]),
          () => Buffer.concat([before, other, behind.subarray(length)]),
          () => Buffer.from(String(bytes).replaceAll('true', random.of(['false', 'null', '1', 'true']))),
        ])();
        let now;
        try {
          now = read(mutated);
        } catch (error) {
          expect(error).toMatchObject({ name: 'CommandFailure', exitCode: 2 });
          expect((error as Error).message).toContain(file);
          continue;
        }
        const marks = now.plan.events.map(({ erase }) => erase);
        const events = PLAN.events.map((each, number) => ({ ...each, erase: marks[number] }));
        expect(JSON.parse(JSON.stringify(now.plan))).toEqual({ ...PLAN, events });
      }
    },
  );
});

describe('[R-1580] a plan that is printed', () => {
  test('lists runs, what is not marked and why, what is blocked, and what was not searched', () => {
    const text = planTable(WRITTEN);
    expect(text).toMatch(
      /^r1 +icu +2026-03-04 05:06 +4 +target, mention +this person +2 of them +mentioned only/m,
    );
    for (const line of [
      '2 events of 1 run marked',
      '1 event: on hold by CASE-7',
      'kept by the floor law until 2036',
      'number 2',
      '1 payload could not be decrypted',
      '3 events arrived after action a1',
      WRITTEN.sha256,
    ])
      expect(text).toContain(line);
    expect(planTable(planFile({ ...PLAN, events: [], searched: 'starts' }))).toContain(
      'only starts were compared',
    );
  });
});
