/**
 * The page of a report: one HTML file that asks the network for nothing and runs no script, made of nothing but its
 * numbers. The same numbers make the same page.
 */
import { isEmpty, type ModelNumbers, type ReportNumbers, type VersionNumbers } from '../report-numbers.js';
import { arrivals, stepEnds, groupTable, versionOverview } from './tables.js';
import { groupFigures, type NamedGroup } from './charts.js';
import { countingNotes, runCommands, type ListedGroup, type RunsCommand } from './notes.js';
import { findingsOf, findingsTable } from './findings.js';
import {
  html,
  Html,
  NOTHING,
  clockWarning,
  countOf,
  countText,
  dateText,
  hasSeveralCalls,
  instantText,
  intervalText,
  latencyText,
  modelText,
  ofText,
  percent,
  periodText,
  versionText,
} from './wording.js';
import { STYLE } from './page-style.js';

const POLICY = new Html("default-src 'none'; style-src 'unsafe-inline'");
/** Models with charts of their own, by how many runs they have; and their newest versions. */
const MOST_MODELS = 12;
const MOST_VERSIONS = 6;

/** @param command what the runs behind a number are listed by. */
export function reportPage(numbers: ReportNumbers, command: RunsCommand): string {
  const title = `Clinical AI in use, ${periodText(numbers.since, numbers.until)}`;
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <title>${title}</title>
        <style>
          ${STYLE}
        </style>
      </head>
      <body>
        <div class="page">
          ${header(numbers)}
          <main>${isEmpty(numbers) ? emptiness(numbers) : contents(numbers, command)}</main>
          ${footer(numbers)}
        </div>
      </body>
    </html> `;
  return page.text;
}

function header(numbers: ReportNumbers): Html {
  const { organisation, model } = numbers.asked_for;
  const outside = outsideText(numbers);
  const warning = clockWarning(numbers);
  const only = [
    ...(organisation === null ? [] : [`organisation ${organisation}`]),
    ...(model === null ? [] : [`model ${model}`]),
  ];
  return html`<header>
    <h1>Clinical AI in use</h1>
    <p class="period">
      ${periodText(numbers.since, numbers.until)}, by the
      ${numbers.clock === 'received' ? 'collector’s clock' : 'senders’ clocks'}, days of
      UTC${only.length === 0 ? '' : `; only ${only.join(', ')}`}
    </p>
    ${outside === '' ? NOTHING : html`<p>${outside}</p>`}
    ${warning === undefined ? NOTHING : html`<p class="warning"><strong>Note:</strong> ${warning}.</p>`}
  </header>`;
}

/** What clocks that are wrong, or a period that was chosen badly, would otherwise hide. */
function outsideText({ events_outside: outside }: ReportNumbers): string {
  if (outside === null || outside.before + outside.after === 0) return '';
  const { before, after } = outside;
  const which =
    after === 0
      ? `${countOf(before, 'event')} before this period`
      : before === 0
        ? `${countOf(after, 'event')} after this period`
        : `${countOf(before, 'event')} before this period and ${countText(after)} after it`;
  return `Not counted: ${which}, by these clocks.`;
}

function emptiness({ log }: ReportNumbers): Html {
  return html`<p class="lead">There is no run in this period.</p>
    <p>
      ${
        log.events === 0
          ? 'The log has no event at all.'
          : `The log has ${countOf(log.events, 'event')}, the newest of ${instantText(log.ends_at ?? '')}. Another period, another clock or fewer conditions may show runs.`
      }
    </p>`;
}

type Lists = (groups: readonly ListedGroup[], id: string) => Html;

function contents(numbers: ReportNumbers, command: RunsCommand): Html {
  const shown = numbers.models.slice(0, MOST_MODELS);
  const ends = stepEnds(numbers);
  const { unit } = numbers.steps;
  const lists: Lists = (groups, id) =>
    folded('How to list the runs behind these numbers', runCommands(numbers, groups, { id, command }));
  return html`${summary(numbers, lists)}
    <nav aria-label="Parts of the report">
      <ul>
        <li><a href="#arrived">What arrived</a></li>
        <li><a href="#versions">Models and versions</a></li>
        <li><a href="#all">All runs</a></li>
        ${shown.map((model, i) => html`<li><a href="#model-${i}">${modelText(model)}</a></li>`)}
        <li><a href="#notes">How it is counted</a></li>
      </ul>
    </nav>
    ${arrivals(numbers, ends)} ${versionOverview(numbers)}
    <section id="all" aria-labelledby="all-title">
      <h2 id="all-title">All runs</h2>
      <p>
        Models that do different work are added up here. Whether something has changed shows in the parts on
        each model.
      </p>
      ${groupFigures([{ name: 'all runs', numbers: numbers.all }], { unit, ends })}
      ${folded('All runs, in numbers', groupTable([{ name: 'all runs', numbers: numbers.all }], 'All runs, in numbers', 'all-table'))}
      <p class="on-paper">
        The parts on each model are folded on the screen; those that are open are printed.
      </p>
    </section>
    <section id="models" aria-labelledby="models-title">
      <h2 id="models-title">Each model</h2>
      ${shown.map((model, i) => modelPart(model, i, { unit, ends }, lists))}
      ${
        numbers.models.length > shown.length
          ? html`<p>
              ${countOf(numbers.models.length - shown.length, 'more model')} with fewer runs: see the table of
              models and versions.
            </p>`
          : NOTHING
      }
    </section>
    <section id="notes" aria-labelledby="notes-title">
      <h2 id="notes-title">How it is counted</h2>
      ${countingNotes(numbers)}
    </section>`;
}

/** @param lists the table of commands for some groups. */
function summary(numbers: ReportNumbers, lists: Lists): Html {
  const { all, events_of_no_run: ofNoRun } = numbers;
  const known = numbers.models.filter(({ model_id: id }) => id !== null).length;
  const calls = hasSeveralCalls(all) ? countOf(all.calls.calls, 'call') : '';
  const runs = `${countOf(all.runs, 'run')}${calls && ` with ${calls}`} of ${countOf(known, 'model')}; ${percent(all.with_outcome.share)} have an outcome.`;
  const judged =
    all.contradicted.of === 0
      ? 'No outcome says yet whether a run was right.'
      : `Of ${countText(all.contradicted.of)} judged runs, ${countText(all.contradicted.count)} (${percent(all.contradicted.share)}) were contradicted by what happened.`;
  const findings = findingsOf(numbers);
  const tile = (name: string, number: string, more: string) =>
    html`<div>
      <dt>${name}</dt>
      <dd class="number">${number}</dd>
      <dd class="more">${more}</dd>
    </div>`;
  const more =
    ofNoRun.events === 0
      ? ''
      : ` ${countOf(ofNoRun.events, 'more event')} ${ofNoRun.events === 1 ? 'belongs' : 'belong'} to no run.`;
  return html`<p class="lead">
      ${all.runs === 0 ? `No run began in this period.${calls && ` Runs that are filed under other models have ${calls}.`}` : `${runs} ${judged}`}${more}
    </p>
    <dl class="tiles">
      ${tile('Runs', countText(all.runs), `${calls && `${calls}, `}${countOf(all.events, 'event')}`)}
      ${tile('With an outcome', percent(all.with_outcome.share), `${ofText(all.with_outcome)} runs`)}
      ${tile('Contradicted', percent(all.contradicted.share), all.contradicted.of === 0 ? 'no judged run' : `${ofText(all.contradicted)} judged runs; 95 % interval ${intervalText(all.contradicted)}`)}
      ${tile('Thumbs up', percent(all.thumbs_up.share), all.thumbs_up.of > 0 ? ofText(all.thumbs_up) : all.feedback.thumbs > 0 ? 'none with a direction' : 'no thumbs')}
      ${tile('Full records', all.runs === 0 ? '–' : percent(all.completeness.full / all.runs), `${countText(all.completeness.incomplete)} incomplete`)}
      ${all.calls.captured === 0 ? NOTHING : tile('Failed calls', percent(all.calls.failed.share), `${ofText(all.calls.failed)} calls of models`)}
      ${tile('With a conflict', percent(all.with_conflict.share), `${ofText(all.with_conflict)} runs`)}
    </dl>
    ${
      findings.length === 0
        ? NOTHING
        : html`<section aria-labelledby="findings-title">
            <h2 id="findings-title">Main findings</h2>
            ${findingsTable(findings)}
          </section>`
    }
    ${lists([{ name: 'all runs', numbers: all }], 'commands')}`;
}

function folded(summary: string, inner: Html): Html {
  if (inner === NOTHING) return NOTHING;
  return html`<details>
    <summary>${summary}</summary>
    ${inner}
  </details>`;
}

/** @param lists the table of commands for some groups. */
function modelPart(model: ModelNumbers, i: number, steps: { unit: string; ends: Html }, lists: Lists): Html {
  const shown = model.versions.slice(-MOST_VERSIONS);
  const groups = shown.map((version): NamedGroup => ({ name: versionText(version), numbers: version }));
  const all: NamedGroup[] = model.versions.length > 1 ? [{ name: 'all versions', numbers: model.all }] : [];
  const older = model.versions.length - shown.length;
  const newest = shown.filter(({ is_new }) => is_new);
  return html`<section class="model" id="model-${i}" aria-labelledby="model-${i}-title">
    <details>
      <summary>
        <h3 id="model-${i}-title">${modelText(model)}</h3>
        <span class="gist">${gistOf(model)}</span>
      </summary>
      <p>
        ${newest.map((version) => `Version ${versionText(version)} is first seen on ${dateText(version.first_run)}. `)}${
          older > 0 ? `${countOf(older, 'version')} that came before these are in “all versions” only.` : ''
        }
      </p>
      ${groupFigures(groups, steps)}
      ${groupTable([...groups, ...all], `${modelText(model)}, version by version`, `model-${i}-table`)}
      ${lists(versionsToList(model.model_id, shown), `model-${i}-commands`)}
    </details>
  </section>`;
}

/** What stands of a model that is folded. */
function gistOf({ all, versions }: ModelNumbers): string {
  const { contradicted } = all;
  return [
    countOf(all.runs, 'run'),
    ...(hasSeveralCalls(all) ? [countOf(all.calls.calls, 'call')] : []),
    countOf(versions.length, 'version'),
    ...(contradicted.of === 0
      ? []
      : [`${percent(contradicted.share)} of ${countText(contradicted.of)} contradicted`]),
    ...(all.latency_ms.p95 === null ? [] : [`latency p95 ${latencyText(all.latency_ms, 'p95')}`]),
  ].join(', ');
}

/** Runs of no known model cannot be asked for by it. */
function versionsToList(modelId: string | null, versions: readonly VersionNumbers[]): ListedGroup[] {
  if (modelId === null) return [];
  return versions.map((version) => ({
    ...{ name: versionText(version), numbers: version, model: `${modelId}@${version.model_version ?? ''}` },
  }));
}

function footer({ made_at, log }: ReportNumbers): Html {
  return html`<footer>
    <p>
      Made on ${instantText(made_at)} by <code>collector report</code> from a log of
      ${countOf(log.events, 'event')}${
        log.ends_at === null ? '' : `, the newest received on ${instantText(log.ends_at)}`
      }.
      It holds counts only: no payload, and no id of a person. Model names and versions are as senders wrote
      them.
    </p>
  </footer>`;
}
