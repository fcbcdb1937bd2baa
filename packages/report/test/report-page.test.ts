import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runsRequestFrom, type RunsOptions, type RunsRequest } from '../../collector/src/commands/runs.js';
import { reportPage } from '../src/page/report-page.js';
import type { ReportNumbers } from '../src/report-numbers.js';
import { shareOf, type Share } from '../src/statistics.js';
import type { Clock } from '../../collector/src/records/vocabulary.js';
import { MARCH, reported, runOf, SECRETS, type WantedRun } from './report-runs.js';

/** Two versions of a model, the newer one contradicted far more often. */
const CHANGE: readonly WantedRun[] = Array.from({ length: 200 }, (_, i) => {
  const newer = i >= 100;
  const contradicted = i % 10 < (newer ? 6 : 1);
  return {
    n: i + 1,
    day: Math.floor(i / 10),
    version: newer ? '5.0.0' : '4.2.0',
    outcomes: i % 5 === 4 ? [] : [contradicted ? 'contradicted' : 'validated'],
    feedback: [{ feedback_type: 'thumbs', direction: newer ? 'down' : 'up' }],
    latencyMs: newer ? 900 : 300,
  };
});

function pageOf(numbers: ReportNumbers): string {
  return reportPage(numbers, (options) => `collector runs ${options.join(' ')}`);
}

/** The text between the tags. */
function textOf(page: string): string {
  return page
    .replace(/<style>[^]*?<\/style>/, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/[ \n]+/g, ' ');
}

describe('the page of a report [R-715]', () => {
  test('compares a new version with the one before at the top', () => {
    const text = textOf(pageOf(reported(CHANGE)));
    expect(text).toContain('Runs 200 1 model, ');
    expect(text).toContain('With an outcome 80.0\u202f% 160 of 200 runs');
    expect(text.replaceAll('\u202f', ' ')).toContain(
      'sepsis-risk 5.0.0 differs First seen on 11 March 2026, after 4.2.0. contradicted, of judged ' +
        '12.5 % of 80 6.9 to 21.5 % 62.5 % of 80 51.5 to 72.3 % intervals do not overlap outcome within ',
    );
    expect(text).toMatch(/ latency p95 300.ms 900.ms/);
  });

  test('compares outcomes within the same time at the top', () => {
    const runs = CHANGE.map((run, i) => ({ ...run, outcomes: i < 100 || i % 2 === 0 ? ['validated'] : [] }));
    const text = textOf(pageOf(reported(runs)));
    // The newer runs are younger than 30 days.
    expect(text.replaceAll('\u202f', ' ')).toContain(
      ' outcome within 7 days 100 % of 100 96.3 to 100 % 50.0 % of 100 40.4 to 59.6 % ' +
        'intervals do not overlap',
    );
    expect(text).toContain('5.0.0 differs ');
    const same = textOf(pageOf(reported(CHANGE)));
    expect(same).toMatch(/outcome within 7 days 80\.0.% .*? intervals overlap latency/);
    expect(text).toContain(
      'within 7 days 100 of 100 (100 %) 50 of 100 (50.0 %) 150 of 200 (75.0 %)'.replaceAll(' %', '\u202f%'),
    );
    const young = reported(CHANGE, { ...MARCH, asOf: MARCH.since + 10.5 * 86_400_000 });
    expect(textOf(pageOf(young))).not.toMatch(/outcome within \d+ days? \d/);
  });

  test('reports that intervals overlap only for enough runs', () => {
    const versions = (runs: number, contradicted: readonly [number, number]) =>
      textOf(
        pageOf(
          reported(
            ['1', '2'].flatMap((version, v) =>
              Array.from({ length: runs }, (_, i) => ({
                n: v * runs + i + 1,
                day: v,
                version,
                outcomes: [i < (contradicted[v] ?? 0) ? 'contradicted' : 'validated'],
              })),
            ),
          ),
        ),
      );
    const few = 'too few to compare: fewer than 20 in one of them';
    const judged = (text: string) =>
      /contradicted, of judged [\d.].*? (too few .*? them|intervals .*?overlap) /.exec(text)?.[1];
    expect(judged(versions(19, [4, 10]))).toBe(few);
    expect(judged(versions(20, [4, 10]))).toBe('intervals overlap');
    expect(judged(versions(8, [0, 8]))).toBe('intervals do not overlap');
  });

  test('draws the intervals of its findings on one scale, beside their numbers [R-715]', () => {
    const page = pageOf(reported(CHANGE));
    const row =
      /<tr class="compared">\s*<th scope="row">contradicted, of judged<[^]*?<\/tr>/.exec(page)?.[0] ?? '';
    const [then = '', now = ''] = [...row.matchAll(/<line class="range"[^]*?<circle[^]*?\/>/g)].map(String);
    const numbersIn = (shape: string) =>
      Object.fromEntries(
        [...shape.matchAll(/ (x1|x2|cx)="([\d.]+)%"/g)].map(([, name = '', value]) => [name, Number(value)]),
      );
    const drawn = ({ low, high, share }: Share) => {
      const [x1, x2, cx] = [low, high, share].map((part) => Number(((part ?? NaN) * 100).toFixed(3)));
      return { x1, x2, cx };
    };
    expect(then).toContain('class="then"');
    expect(numbersIn(then)).toEqual(drawn(shareOf(10, 80)));
    expect(now).toContain('class="now"');
    expect(numbersIn(now)).toEqual(drawn(shareOf(50, 80)));
    // The numbers are in other cells.
    expect(row).toContain('aria-hidden="true"');
    expect(textOf(row)).toMatch(/6\.9 to 21\.5.% .* 51\.5 to 72\.3.%/);
  });

  test('shows calls and tokens of each model, and calls that conflict [R-715]', () => {
    const done = { ending: 'complete', usage: { input_tokens: 1100, output_tokens: 7 } };
    const reader = { model: 'reader', version: '2', ended: done };
    const planned = [
      { n: 1, model: 'planner', version: '1', calls: [reader, reader] },
      { n: 2, model: 'planner', version: '1', calls: [{ ...reader, target: 'another' }] },
    ];
    const page = pageOf(reported(planned));
    const text = textOf(page);
    expect(text).toContain('Runs 2 2 models, 5 calls, ');
    expect(text).toMatch(/model version first run runs calls events tokens in tokens out with an outcome/);
    expect(text).toMatch(/ planner 1 1 March 2026 2 2 \d+ – – /);
    expect(text).toMatch(/ reader 2 – 0 3 0 3,300 21 /);
    expect(text).toContain('reader 0 runs, 3 calls, 1 version');
    expect(text).toContain('most often calls with another target or user (1)');
    const single = textOf(pageOf(reported(CHANGE)));
    expect(single).toMatch(/first run runs events with an outcome/);
    // A model that occurs only in runs of another.
    const models = [{ model: 'reader' }];
    const asked = textOf(pageOf(reported(planned, { ...MARCH, models })));
    expect(asked).toMatch(/Runs 0 1 model, 3 calls, /);
  });

  test('is the same for the same numbers, without network and script', () => {
    const page = pageOf(reported(CHANGE));
    expect(pageOf(reported(CHANGE))).toBe(page);
    expect(page).toContain(
      `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"`,
    );
    expect(page).not.toMatch(/<script|<link|<img|<iframe|\son\w+=|@import|https?:/i);
    expect([...page.matchAll(/url\(([^)]*)\)/g)].every(([, target]) => target?.startsWith('#'))).toBe(true);
  });

  test('has no payload, and other words only as a number', () => {
    const words = ['He was <b>angry</b>', 'sent home'];
    const page = pageOf(
      reported([
        ...CHANGE,
        { n: 900, outcomes: [words[0]], feedback: [{ feedback_type: words[1], direction: words[1] }] },
      ]),
    );
    for (const secret of [...SECRETS, ...words, 'angry', 'abcdef00-']) expect(page).not.toContain(secret);
    expect(textOf(page)).toContain('other words');
  });

  test('escapes the names of models', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 20 }), (name) => {
        const page = pageOf(reported([{ n: 1, model: `<i>"'&${name}`, version: `\u202e${name}</h2>` }]));
        expect(page).toContain('&lt;i&gt;&quot;&#39;&amp;');
        expect(page).not.toContain('<i>');
        expect(page).not.toMatch(/[\p{Cc}\u202e](?<!\n)/u);
        expect(page.match(/<h2/g)?.length).toBe(page.match(/<\/h2>/g)?.length);
      }),
      { numRuns: 10 },
    );
  });

  test('has a bounded size', () => {
    const runs = Array.from({ length: 600 }, (_, i) => ({
      n: i + 1,
      model: `model-${i % 40}`,
      version: `v${i % 15}`,
    }));
    const page = pageOf(reported(runs));
    expect(page.length).toBeLessThan(1 << 20);
    const text = textOf(page);
    expect(text).toMatch(/28 more models with fewer runs/);
    expect(text).toMatch(/\d+ more versions with \d+ runs/);
  });

  test('shows the endings of captured calls, if any [R-715]', () => {
    const failed = { ending: 'failed', status: 429 };
    const done = { ending: 'complete', usage: { input_tokens: 1100, output_tokens: 7 } };
    const page = pageOf(reported([failed, done, done].map((ended, n) => ({ n: n + 1, ended }))));
    const text = textOf(page);
    expect(text).toContain('Failed calls 33.3\u202f% 1 of 3 captured');
    expect(text.replaceAll('\u202f', ' ')).toContain(
      'failed calls 33.3 %, 1 of 3 6.1 to 79.2 % of captured calls of models, ' +
        'most often with status 429 (1)',
    );
    expect(text).toContain('failed with status 429 1');
    expect(text).toContain('tokens in 2,200 (1,100 per call)');
    expect(textOf(pageOf(reported(CHANGE)))).not.toMatch(/Failed calls|failed calls \d|tokens in/);
  });
});

/** Whether `collector runs` lists the record for these options. */
function beganOf({ metadata }: ClinicalRecord, clock: Clock): number {
  if (clock === 'received') return Date.parse(metadata.first_received_at);
  const start = metadata.events.find(({ kind }) => kind === 'inference-start');
  return Date.parse(start?.timestamp ?? metadata.first_timestamp ?? '');
}

function isListed(record: ClinicalRecord, { filter }: RunsRequest): boolean {
  const { completeness, conflicts, call } = record.metadata;
  const began = beganOf(record, filter.clock);
  const last = record.outcomes.at(-1)?.outcome['outcome_type'];
  const asked = call && call.ending !== 'complete' ? record.model?.model_id : undefined;
  const answered = call?.ending === 'failed' ? null : call?.response_model;
  const version = record.model?.model_version ?? answered ?? asked ?? '';
  const { since = -Infinity, until = Infinity, outcome, models, level } = filter;
  return (
    record.metadata.run_id !== null &&
    began >= since &&
    began < until &&
    (outcome === undefined || (last ?? 'none') === outcome) &&
    (models?.some((each) => each.model === record.model?.model_id && each.version === version) ?? true) &&
    (level === undefined || completeness.level === level) &&
    (filter.hasConflict === undefined || conflicts.length > 0) &&
    (filter.failed === undefined || call?.ending === 'failed')
  );
}

describe('the commands on the page [R-715]', () => {
  const RUNS: readonly WantedRun[] = Array.from({ length: 120 }, (_, i) => ({
    n: i + 1,
    day: (i % 40) - 5,
    late: i % 3,
    model: i % 2 === 0 ? 'sepsis-risk' : 'triage@night',
    version: i % 7 === 0 ? '5.0.0' : '4.2.0',
    outcomes: i % 5 === 0 ? [] : [i % 4 === 0 ? 'contradicted' : 'validated'],
    ...(i % 11 === 0 && { withoutStart: true as const }),
    ...(i % 13 === 0 && { ended: { ending: 'failed', status: 503 } }),
    ...(i % 17 === 0 && { ofNoRun: true as const }),
    latencyMs: i % 6 === 0 ? -500 : 500,
  }));

  test.each(['sender', 'received'] as const)(
    'list exactly the runs of each number, by the clock %s',
    (clock) => {
      const records = RUNS.map(runOf);
      const commands: (readonly string[])[] = [];
      const page = reportPage(
        reported(RUNS, { ...MARCH, clock }),
        (options) => `#${commands.push(options) - 1}#`,
      );
      const cells =
        /<th scope="row">([^<]*)<\/th>\s*<td class="text"><code>#(\d+)#<\/code><\/td>\s*<td>(\d+)</g;
      const rows = [...page.matchAll(cells)];
      expect(rows).toHaveLength(commands.length);
      const seen = new Set<string>();
      for (const [, name = '', index, count] of rows) {
        const typed = Object.fromEntries(
          (commands[Number(index)] ?? []).flatMap((word, i, words) =>
            word.startsWith('--')
              ? [[word.slice(2), words[i + 1]?.startsWith('--') ? true : (words[i + 1] ?? true)]]
              : [],
          ),
        ) as RunsOptions;
        const request = runsRequestFrom(typed, 0);
        expect([name, records.filter((record) => isListed(record, request)).length]).toEqual([
          name,
          Number(count),
        ]);
        expect(request.limit, name).toBeGreaterThanOrEqual(Number(count));
        expect(request.filter.clock).toBe(clock);
        seen.add(name.replace(/^.*: /, ''));
      }
      expect([...seen].sort()).toEqual([
        ...[
          'contradicted',
          'failed calls',
          'incomplete',
          'with a conflict',
          'without an outcome after 30 days',
        ],
      ]);
      expect(page).toContain('triage@night');
    },
  );

  test('are absent for a name that the page cannot show, and without runs to list', () => {
    const hidden = { n: 1, day: 5, model: 'a\u202eb', outcomes: ['contradicted'] };
    const long = { ...hidden, n: 2, model: 'x'.repeat(130) };
    const text = textOf(pageOf(reported([hidden, long])));
    expect(text).toContain('collector runs --outcome contradicted --since');
    expect(text).not.toContain('--model');
    const sound = { n: 3, day: 30, outcomes: ['validated'] };
    expect(pageOf(reported([sound]))).not.toContain('<code>collector runs');
  });
});
