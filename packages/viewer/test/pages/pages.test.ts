import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { RunEvent } from '../../../collector/src/records/run-event.js';
import { event, fullRun, id } from '../../../collector/test/records/run-events.js';
import { peoplePages } from '../../src/pages/people-pages.js';
import { partOf } from '../../src/reading/run-part.js';
import { logPages } from '../../src/pages/pages.js';
import { addressesIn, textOfMarkup } from './markup.js';
import {
  demoRuns,
  foundRun,
  frame,
  HOSTILE,
  PROOF,
  reportShown,
  runOfText,
  runShown,
  runsShown,
} from './sample.js';

const words = (html: string) => textOfMarkup(html.replace(/<title>.*?<\/title>/, '')).replace(/\s+/g, ' ');
const found = demoRuns().slice(0, 5);
const run = foundRun(fullRun());

describe('[R-2049] the list of runs', () => {
  test('shows the words of collector runs, and links to each run', () => {
    const { html } = logPages.runs(runsShown('reviewer', found));
    for (const { summary } of found) {
      expect(html).toContain(`/reviewer/runs/${summary.recordId}?organisation=st-anne-hospital`);
      expect(words(html)).toContain(summary.modelId ?? 'not known');
    }
    expect(html).toContain('href="/reviewer/runs?page=2"');
    expect(words(html)).toContain(`${found.length} runs on page 1, newest first`);
  });

  test.each(['reviewer', 'clinician', 'auditor', 'break-glass'] as const)(
    'names no person for a %s',
    (role) => {
      const summary = { ...run.summary };
      const { html } = logPages.runs(runsShown(role, [{ ...run, summary }]));
      expect(html).not.toContain('patient-30977');
      expect(html).not.toContain('clinician-8841');
    },
  );

  test('a person is looked up by a form that posts, also for older runs, and by no address', () => {
    const { html } = logPages.runs(
      runsShown('reviewer', found, { form: { target: 'patient-30977' }, page: 2 }),
    );
    expect(addressesIn(html).join('\n')).not.toContain('patient-30977');
    const forms = html.match(/<form[^>]*method="post"[^>]*action="\/reviewer\/runs".*?<\/form>/gs) ?? [];
    expect(forms).toHaveLength(3);
    for (const form of forms) expect(form).toContain('name="form_token" value="form-token"');
    expect(forms.filter((form) => /name="target"\s+value="patient-30977"/.test(form))).toHaveLength(3);
    expect(forms.map((form) => /name="page" value="(\d+)"/.exec(form)?.[1])).toEqual(['1', '3', undefined]);
    expect(forms[2]).toContain('autocomplete="off"');
  });

  test('an auditor has no form for a person, and a clinician none for a caller', () => {
    expect(logPages.runs(runsShown('auditor', found)).html).not.toMatch(/name="(?:target|user)"/);
    const { html } = logPages.runs(runsShown('clinician', found));
    expect(html).toContain('name="target"');
    expect(html).not.toContain('name="user"');
    expect(words(html)).toContain('As a clinician you see the runs in which clinician-17 called the model.');
  });

  test('keeps the filter in its form and in the links to other pages, without tokens and persons', () => {
    const form = {
      organisation: 'north-clinic',
      model: 'a&b',
      since: '2026-11-01',
      form_token: 'x',
      user: '',
    };
    const { html } = logPages.runs(runsShown('reviewer', found, { form, page: 2 }));
    expect(html).toMatch(/<option value="north-clinic" +selected>/);
    expect(html).toContain('name="model" value="a&amp;b"');
    expect(html).toContain(
      'href="/reviewer/runs?organisation=north-clinic&amp;model=a%26b&amp;since=2026-11-01&amp;page=3"',
    );
    expect(addressesIn(html).join('\n')).not.toContain('form_token');
  });

  test('an empty list says what it covers, and leads to the other clock [R-2051]', () => {
    const { html } = logPages.runs(runsShown('reviewer', [], { list: { runs: [], hasMore: false } }));
    expect(words(html)).toMatch(
      /No run matches\. The list covers 48,213 entries of the log, as of 24 November 2026/,
    );
    expect(html).toContain('href="/reviewer/runs?clock=sender"');
  });
});

describe('[R-2051] the state of the list and the keys is on every page', () => {
  const state = frame('reviewer').state;
  test.each([
    [{ catalogue: 'building', progress: 0.42 }, 'The list is being made: 42'],
    [{ catalogue: 'unusable', reason: 'The disk is full' }, 'The list cannot be used now: The disk is full'],
    [{ keys: 'away' }, 'The keys are away: contents cannot be shown.'],
  ] as const)('%j', (more, sentence) => {
    const shown = { state: { ...state, ...more } };
    for (const { html } of [
      logPages.runs(runsShown('reviewer', found, shown)),
      logPages.run(runShown('reviewer', run, shown)),
      logPages.report(reportShown(shown)),
    ])
      expect(words(html)).toContain(sentence);
  });
});

describe('[R-2049] the page of a run', () => {
  test('shows who, about whom, the model and each event with its place in the log', () => {
    const { html } = logPages.run(runShown('reviewer', run));
    for (const text of [
      'clinician-8841',
      'patient-30977',
      'sepsis-risk 4.2.0',
      'Estimate the risk.',
      'High risk.',
    ])
      expect(words(html)).toContain(text);
    expect(words(html)).toMatch(
      /Shown to a person human-output 2 March 2026, 08:31:03 UTC · 2\.0 s after the start/,
    );
    expect(words(html)).toContain('Event 3 of the log');
    expect(html).toContain(`href="/reviewer/proof/${id(3)}?organisation=default"`);
  });

  test('says in words what is missing, contradictory, held, encrypted and erased', () => {
    const events = [
      event({ kind: 'inference-start', n: 1, parent: null }),
      event({ kind: 'outcome', n: 2, at: '2026-03-02T08:00:00Z', parent: id(99) }),
      { ...event({ kind: 'internal-artifact', n: 3, payloadState: 'encrypted' }), body: undefined },
    ] satisfies RunEvent[];
    const { record, ...rest } = foundRun(events, ['hold-action']);
    const [first, second, third] = record.metadata.events;
    const erased = {
      ...first,
      payload: 'erased' as const,
      action: 'erasure-1',
      erased_at: '2026-11-02T09:00:00.000Z',
    };
    const changed = {
      ...record,
      metadata: { ...record.metadata, events: [erased, second, third] as typeof record.metadata.events },
    };
    const text = words(logPages.run(runShown('reviewer', { ...rest, record: changed })).html);
    expect(text).toContain('This run is held: it is kept from erasure by action hold-action.');
    expect(text).toContain('incomplete; missing: output');
    expect(text).toContain('An event before its start: event 2.');
    expect(text).toContain('The log does not have the event on which these expand: event 2.');
    expect(text).toContain('The contents of this event are encrypted, and their key cannot be read now.');
    expect(text).toContain('erased on 2 November 2026 by action erasure-1');
  });

  test('for an auditor nothing of the contents and of the persons is in the document [R-2047]', () => {
    const { html } = logPages.run(runShown('auditor', runOfText('canary')));
    expect(words(html)).toContain('As an auditor you see');
    // The names of the model and of the application are no contents.
    const rest = html.replace(
      /<dt>(?:Model|Application)<\/dt>.*?<\/dd>|<td data-name="Model">.*?<\/td>/gs,
      '',
    );
    expect(rest).not.toContain('canary');
    for (const { html: each } of found.map((one) => logPages.run(runShown('auditor', one)))) {
      expect(each).not.toMatch(/patient-|encounter-|clinician/);
    }
  });

  test('with 1,700 events has parts that together have each event once', () => {
    const events = Array.from({ length: 1700 }, (_, i) =>
      event({ kind: i === 0 ? 'inference-start' : 'internal-artifact', n: i + 1 }),
    );
    const many = foundRun(events);
    const seen: string[] = [];
    for (let from = 0; from < 1700; from += 500) {
      const { html } = logPages.run(runShown('reviewer', { ...many, ...partOf(many.record, from) }));
      seen.push(...Array.from(html.matchAll(/id="event-(\d+)"/g), ([, n = '']) => n));
      const more = html.includes(`from=${from + 500}#events-title`);
      expect(more).toBe(from + 500 < 1700);
    }
    expect(seen.map(Number).toSorted((a, b) => a - b)).toEqual(events.map((_, i) => i + 1));
  });

  test('a value nested 3,000 times and a text of a mebibyte are complete', () => {
    let deep: unknown = 'innermost';
    for (let i = 0; i < 3000; i++) deep = [deep];
    const text = 'All of it. '.repeat(95_000);
    const big = foundRun([
      event({ kind: 'inference-start', n: 1, more: { deep, inputs: { prompt: text } } }),
    ]);
    const { html } = logPages.run(runShown('reviewer', big));
    expect(html).toContain(text);
    expect(html).toContain(`${'['.repeat(3000)}&quot;innermost&quot;`);
  });
});

describe('[R-2049] other pages', () => {
  test('a proof names the event, the checkpoint, the witnesses and the key, and can be downloaded', () => {
    const { html } = logPages.proof({ ...frame('auditor'), proof: PROOF, organisation: 'st-anne-hospital' });
    expect(words(html)).toContain(
      'Event 4,935 of the log, in the checkpoint of 24 November 2026, 08:14:02 UTC, which covers 48,213 entries; signature verified.',
    );
    for (const text of [
      ...PROOF.cosignedBy,
      PROOF.verifierKey,
      `check-proof ${PROOF.eventId}.tlog-proof --event body.json`,
      'jq -j .body > body.json',
    ])
      expect(words(html)).toContain(text);
    // A character that a page does not show stands for a line break in one.
    expect(html).not.toContain('\uFFFD');
    expect(html).toContain(
      `href="/auditor/proof/${PROOF.eventId}?organisation=st-anne-hospital&amp;download=1"`,
    );
  });

  test('the report has links in place of commands, and its policy permits exactly its own style', () => {
    const { html, headers } = logPages.report(reportShown());
    const [, style = ''] = /<style>(.*?)<\/style>/s.exec(html) ?? [];
    const hash = createHash('sha256').update(style).digest('base64');
    expect(headers?.['Content-Security-Policy']).toContain(`style-src 'self' 'sha256-${hash}';`);
    expect(html.match(/<style/g)).toHaveLength(1);
    expect(html).not.toContain(' style=');
    expect(html).toContain('href="/reviewer/runs?outcome=contradicted&amp;');
    expect(html).not.toContain('collector runs');
  });

  test('break-glass has a banner with the reason and its end', () => {
    const text = words(logPages.runs(runsShown('break-glass', found)).html);
    expect(text).toContain('Break-glass: you see everything.');
    expect(text).toContain('Your reason: Patient in resuscitation room 2');
    expect(text).toContain('24 November 2026, 08:29:00 UTC');
  });

  test('no page has a script, an image or text as markup', () => {
    const pages = [
      logPages.run(runShown('reviewer', runOfText(HOSTILE))).html,
      logPages.runs(
        runsShown('reviewer', [runOfText(HOSTILE)], {
          form: { model: HOSTILE, target: HOSTILE },
          problem: HOSTILE,
        }),
      ).html,
      logPages.refusal({ ...frame('reviewer'), title: HOSTILE, sentences: [HOSTILE] }).html,
      peoplePages.signIn({ how: 'oidc', provider: HOSTILE, problem: HOSTILE }),
      peoplePages.roles({ name: HOSTILE, roles: [], notes: [HOSTILE], signOutToken: HOSTILE }),
      peoplePages.message({ title: HOSTILE, sentences: [HOSTILE], link: 'roles' }),
      peoplePages.continueTo({ title: HOSTILE, to: '/', text: HOSTILE }),
    ];
    for (const page of pages) expect(page).not.toMatch(/<(?:script|img|iframe|object|b)\b/i);
  });
});
