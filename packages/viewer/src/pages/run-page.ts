/** The page of a run: who, about whom, which model, every event in order, and what is missing. */
import { callNumbers, duration, startOf } from '@clinical-events/collector/commands/records/timeline';
import { feedbackOf } from '@clinical-events/collector/commands/run-list';
import { numberIn } from '@clinical-events/collector/records/raw-json';
import { OUTCOME_TEXT } from '@clinical-events/collector/records/vocabulary';
import type { RecordedCall } from '@clinical-events/protocol';
import { html, type Html, type Inner, NOTHING } from '@clinical-events/report/html';
import { countText, MISSING_TEXT } from '@clinical-events/report/wording';
import { PART_EVENTS } from '../reading/run-part.js';
import { conflictsPart } from './conflicts-part.js';
import { endingText, eventPart, type RunView, saidIn } from './event-part.js';
import { layout } from './layout.js';
import type { MadePage, RunShown } from './page-types.js';
import { inline } from './text.js';
import { type Members, membersHtml } from './values.js';
import { facts, runAddress, timeHtml } from './words.js';

/** Calls and nested runs that a page lists. */
const MOST_LISTED = 500;

export function runPage(shown: RunShown): MadePage {
  const { record } = shown.run;
  const { run_id: runId, record_id: recordId, events } = record.metadata;
  const view = viewOf(shown);
  const { from, until } = shown.run.part;
  const part = events.slice(from, until);
  const name = runId === null ? 'Record' : 'Run';
  const main = html`<h1>${name} <span class="id">${recordId}</span></h1>
    ${scopeText(shown)} ${heldText(shown)} ${head(shown, view)} ${callsPart(shown, view)}
    ${gapsPart(shown, view)} ${conflictsPart(shown, view)}
    <section aria-labelledby="events-title">
      <h2 id="events-title">What happened</h2>
      ${partText(shown)}
      <ol class="events" start="${from + 1}">
        ${part.map((event) => eventPart(event, view))}
      </ol>
      ${partLinks(shown)}
    </section>
    ${others(shown)}`;
  return { html: layout(shown, { title: `${name} ${recordId.slice(0, 8)}`, main }) };
}

function viewOf({ acting, run, withContents }: RunShown): RunView {
  const { record, summary, part } = run;
  const { organisation } = summary;
  const { events, record_id: recordId } = record.metadata;
  const places = new Map(events.map(({ event_id: id, sequence }, place) => [id, { place, sequence }]));
  return {
    ...{ role: acting.role, organisation, withContents },
    origin: startOf(events),
    callNumbers: callNumbers(record),
    said: withContents ? saidIn(record) : new Map(),
    eventLink: (eventId) => {
      const found = places.get(eventId);
      if (found === undefined) return html`<code>${eventId}</code> (not in this run)`;
      const isHere = found.place >= part.from && found.place < part.until;
      const from = isHere ? part.from : found.place;
      const there = `${runAddress(acting.role, recordId, organisation, from)}#event-${found.sequence}`;
      return html`<a href="${there}">event ${countText(found.sequence)}</a>`;
    },
  };
}

function scopeText({ withContents }: RunShown): Html {
  if (withContents) return NOTHING;
  return html`<p class="notice">
    As an auditor you see the times, kinds, ids and completeness of this run. Its contents and its persons are
    not shown.
  </p>`;
}

/** Actions of holds; erasures are shown with the events. */
function heldText({ run }: RunShown): Html {
  const erasures = new Set(run.record.metadata.events.map(({ action }) => action));
  const holds = run.holds.filter((action) => !erasures.has(action));
  if (holds.length === 0) return NOTHING;
  return html`<p class="notice">
    <strong>This run is held:</strong> it is kept from erasure by
    ${holds.map((action, i) => html`${i === 0 ? '' : ', '}action ${inline(action)}`)}.
  </p>`;
}

function head(shown: RunShown, view: RunView): Html {
  const { record, summary } = shown.run;
  const { metadata, model, user, target } = record;
  const { call, tokens, latency_ms: latency, events, calls } = metadata;
  const persons: [Inner, Inner][] = [
    ['Called by', named(user, 'caller_id', 'caller_type')],
    ['About', named(target, 'target_id', 'target_type')],
  ];
  const { modelId, modelVersion } = summary;
  const auditedModel = modelId === null ? UNKNOWN : html`${inline(modelId)} ${inline(modelVersion ?? '')}`;
  return facts([
    ...(view.withContents ? persons : []),
    ['Model', view.withContents ? named(model, 'model_id', 'model_version') : auditedModel],
    ['Organisation', inline(summary.organisation)],
    ['Application', summary.application === null ? UNKNOWN : inline(summary.application)],
    ['Began', timeHtml(view.origin ?? metadata.first_received_at)],
    ['Events', `${countText(events.length)}, the last received ${timeOfLast(shown)}`],
    ...(call === null || calls.length > 1 ? [] : callRows(call, view)),
    ['Tokens', tokenText(tokens.input, tokens.output)],
    ['Latency', latency === null ? UNKNOWN : `${duration(latency)} to the first output`],
    ['Record', completenessText(shown)],
    ...(view.withContents ? verdictRows(summary) : []),
    ...nesting(shown),
  ]);
}

/** The outcome and feedback of the run, in the words of the list. */
function verdictRows(summary: RunShown['run']['summary']): [Inner, Inner][] {
  const { outcome, outcomesDiffer } = summary;
  const given = feedbackOf(summary).join(', ');
  return [
    ['Last outcome', `${OUTCOME_TEXT[outcome]}${outcomesDiffer ? '; its outcomes differ' : ''}`],
    ['Feedback', given === '' ? html`<span class="none">none</span>` : given],
  ];
}

const UNKNOWN = html`<span class="none">not known</span>`;

function timeOfLast({ run }: RunShown): string {
  return run.record.metadata.last_received_at.replace('T', ' ').replace(/\.\d+Z$/, ' UTC');
}

/** An id with its version or type. */
function named(object: Readonly<Record<string, unknown>> | null, ...names: readonly string[]): Html {
  const parts = names.map((name) => object?.[name]).filter((part) => part !== undefined && part !== null);
  if (parts.length === 0) return UNKNOWN;
  return html`${parts.map((part, i) => {
    const text = typeof part === 'string' ? part : JSON.stringify(part);
    return i === 0 ? inline(text) : html` <span class="version">${inline(text)}</span>`;
  })}`;
}

function callRows(call: RecordedCall, { withContents }: RunView): [Inner, Inner][] {
  const { by, attempts, response_model: answered } = call;
  const tried = attempts === 1 ? '' : `, attempt ${attempts}`;
  return [
    [
      'The call ended',
      html`${endingText(call, withContents)}${tried}${withContents ? html`; captured by ${inline(by)}` : NOTHING}`,
    ],
    ...(answered === null ? [] : [['Answered by', inline(answered)] as [Inner, Inner]]),
  ];
}

function tokenText(input: unknown, output: unknown): Inner {
  const [of, to] = [numberIn(input), numberIn(output)];
  if (of === undefined && to === undefined) return html`<span class="none">not counted</span>`;
  return `${of === undefined ? 'not counted' : countText(of)} in, ${to === undefined ? 'not counted' : countText(to)} out`;
}

const LEVEL_TEXT = {
  full: 'full: nothing is missing',
  minimum: 'minimum',
  incomplete: 'incomplete',
  erased: 'erased: only contents that were erased are missing',
};

function completenessText({ run }: RunShown): string {
  const { level, missing } = run.record.metadata.completeness;
  if (missing.length === 0 || level === 'full') return LEVEL_TEXT[level];
  return `${LEVEL_TEXT[level]}; missing: ${missing.map((word) => MISSING_TEXT[word]).join(', ')}`;
}

function nesting({ acting, run }: RunShown): [Inner, Inner][] {
  const { parent, children } = run.record.metadata;
  const { organisation } = run.summary;
  const link = (id: string) =>
    html`<a class="id" href="${runAddress(acting.role, id, organisation)}">${id}</a>`;
  const above = parent === null ? undefined : (parent.run_id ?? undefined);
  const rows: [Inner, Inner][] = [];
  if (parent !== null)
    rows.push([
      'Nested in',
      above === undefined ? html`no run (event <code>${parent.event_id}</code>)` : link(above),
    ]);
  if (children.length > 0)
    rows.push([
      'Nested runs',
      html`${children.slice(0, MOST_LISTED).map((id, i) => html`${i === 0 ? '' : ', '}${link(id)}`)}
      ${moreText(children.length)}`,
    ]);
  return rows;
}

function moreText(count: number): string {
  return count > MOST_LISTED ? `, and ${countText(count - MOST_LISTED)} more` : '';
}

/** The calls of a run with several. */
function callsPart({ run }: RunShown, view: RunView): Html {
  const { calls } = run.record.metadata;
  if (calls.length < 2) return NOTHING;
  const row = (call: (typeof calls)[number], place: number) => {
    const { ended, model, latency_ms: latency } = call;
    const cells: (readonly [string, Inner])[] = [
      ['Model', named(model, 'model_id', 'model_version')],
      ['Latency', latency === null ? UNKNOWN : duration(latency)],
      ['Ended', ended === null ? UNKNOWN : endingText(ended, view.withContents)],
      ['Answered by', ended?.response_model == null ? UNKNOWN : inline(ended.response_model)],
      ['Tokens', tokenText(ended?.input_tokens, ended?.output_tokens)],
    ];
    return { link: html`Call ${place + 1}, ${view.eventLink(call.event_id)}`, cells };
  };
  const rows = calls.slice(0, MOST_LISTED).map(row);
  return html`<section aria-labelledby="calls-title">
    <h2 id="calls-title">Calls of models</h2>
    <div class="wide" role="group" aria-labelledby="calls-title" tabindex="0">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">Call</th>
            ${rows[0]?.cells.map(([name]) => html`<th scope="col">${name}</th>`) ?? NOTHING}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            ({ link, cells }) =>
              html`<tr>
                <th scope="row">${link}</th>
                ${cells.map(([name, inner]) => html`<td data-name="${name}">${inner}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${calls.length > MOST_LISTED ? html`<p>The first ${countText(MOST_LISTED)} of ${countText(calls.length)} calls.</p>` : NOTHING}
  </section>`;
}

/** Gaps of the record in single events. */
function gapsPart({ run }: RunShown, { eventLink }: RunView): Html {
  const { orphans, numbers_in_text: numbers, replaced_text: replaced } = run.record.metadata.completeness;
  const gaps = (
    [
      ['The log does not have the event on which these expand', orphans],
      ['A number was sent as a text in these', numbers],
      [
        'The mark � stands for half a character in the texts of these; the stored event is unchanged',
        replaced,
      ],
    ] as const
  ).filter(([, ids]) => ids.length > 0);
  if (gaps.length === 0) return NOTHING;
  return html`<section aria-labelledby="gaps-title">
    <h2 id="gaps-title">Remarks on single events</h2>
    <ul>
      ${gaps.map(([text, ids]) => html`<li>${text}: ${ids.map((id, i) => html`${i === 0 ? '' : ', '}${eventLink(id)}`)}.</li>`)}
    </ul>
  </section>`;
}

function partText({ run }: RunShown): Html {
  const all = run.record.metadata.events.length;
  const { from, until } = run.part;
  if (until - from === all) return NOTHING;
  return html`<p class="part">
    Events ${countText(from + 1)} to ${countText(until)} of ${countText(all)}, in the order of their times.
  </p>`;
}

function partLinks({ acting, run }: RunShown): Html {
  const { record_id: recordId, events } = run.record.metadata;
  const { from, until } = run.part;
  if (until - from === events.length) return NOTHING;
  const { organisation } = run.summary;
  const link = (to: number, text: string) =>
    html`<a href="${runAddress(acting.role, recordId, organisation, to)}#events-title">${text}</a>`;
  const before = (place: number) => Math.max(0, place - PART_EVENTS);
  return html`<nav class="pages" aria-label="Parts of the run">
    ${from > 0 ? html`${link(0, 'First events')} ${link(before(from), 'Earlier events')}` : NOTHING}
    ${until < events.length ? html`${link(until, 'Later events')} ${link(before(events.length), 'Last events')}` : NOTHING}
  </nav>`;
}

const RECORD_FIELDS = new Set([
  ...['model', 'user', 'target', 'inputs', 'artifacts', 'outputs', 'outcomes', 'metadata', 'feedback'],
]);

/** Fields of the record that this version does not know. */
function others({ run, withContents }: RunShown): Html {
  if (!withContents) return NOTHING;
  const members: Members = Object.entries(run.record).filter(([name]) => !RECORD_FIELDS.has(name));
  if (members.length === 0) return NOTHING;
  return html`<section aria-labelledby="others-title">
    <h2 id="others-title">Further fields of the record</h2>
    ${membersHtml(members)}
  </section>`;
}
