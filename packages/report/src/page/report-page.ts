/**
 * The page of a report: one HTML file without scripts or network access. The same numbers make the same page.
 */
import { isEmpty, type ModelNumbers, type ReportNumbers, type VersionNumbers } from '../report-numbers.js';
import { arrivals, groupTable, versionOverview } from './tables.js';
import { groupFigures, type NamedGroup, type Steps } from './charts.js';
import {
  byCommands,
  countingNotes,
  runCommands,
  type ListedGroup,
  type RunsCommand,
  type RunsListed,
} from './notes.js';
import { findingsOf, findingsTable } from './findings.js';
import { html, Html, NOTHING, folded } from './html.js';
import {
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
  shortDateText,
  versionText,
} from './wording.js';
import { STYLE } from './page-style.js';

export { STYLE };
export type { RunsListed };

const POLICY = new Html("default-src 'none'; style-src 'unsafe-inline'");
/** Limits: models with their own part of the page, and their newest versions. */
const MOST_MODELS = 12;
const MOST_VERSIONS = 6;

/** The parts of the page, for a document with the style {@link STYLE}. */
export interface ReportParts {
  readonly title: string;
  readonly header: Html;
  /** The contents of `main`. */
  readonly main: Html;
  readonly footer: Html;
}

export function reportParts(numbers: ReportNumbers, listed: RunsListed): ReportParts {
  return {
    title: `Clinical AI in use, ${periodText(numbers.since, numbers.until)}`,
    header: header(numbers),
    main: isEmpty(numbers) ? emptiness(numbers) : contents(numbers, listed),
    footer: footer(numbers),
  };
}

/** @param command makes the commands that list the runs behind a number. */
export function reportPage(numbers: ReportNumbers, command: RunsCommand): string {
  const parts = reportParts(numbers, byCommands(command));
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <title>${parts.title}</title>
        <style>
          ${STYLE}
        </style>
      </head>
      <body>
        <div class="page">
          ${parts.header}
          <main>${parts.main}</main>
          ${parts.footer}
        </div>
      </body>
    </html> `;
  return page.text;
}

function header(numbers: ReportNumbers): Html {
  const { organisation, model } = numbers.asked_for;
  const warning = clockWarning(numbers);
  const scope = [
    `${periodText(numbers.since, numbers.until)} (UTC), by the `,
    numbers.clock === 'received' ? 'collector’s clock' : 'senders’ clocks',
    organisation === null ? '' : `; only organisation ${organisation}`,
    model === null ? '' : `; only model ${model}`,
  ];
  const { before, after } = numbers.events_outside ?? { before: 0, after: 0 };
  const outside = `Not counted: ${countOf(before, 'event')} before the period, ${countText(after)} after it.`;
  return html`<header>
    <h1>Clinical AI in use</h1>
    <p class="period">${scope.join('')}</p>
    ${before + after === 0 ? NOTHING : html`<p>${outside}</p>`}
    ${warning === undefined ? NOTHING : html`<p class="warning"><strong>Note:</strong> ${warning}.</p>`}
  </header>`;
}

function emptiness({ log }: ReportNumbers): Html {
  const newest = `The log has ${countOf(log.events, 'event')} up to ${instantText(log.ends_at ?? '')}.`;
  return html`<p class="lead">There is no run in this period.</p>
    <p>${log.events === 0 ? 'The log has no event.' : `${newest} Try another period, clock or model.`}</p>`;
}

type Lists = (groups: readonly ListedGroup[], id: string) => Html;

function contents(numbers: ReportNumbers, listed: RunsListed): Html {
  const shown = numbers.models.slice(0, MOST_MODELS);
  const steps = { unit: numbers.steps.unit, ends: stepEnds(numbers) };
  const lists: Lists = (groups, id) => folded(listed.summary, runCommands(numbers, groups, { id, listed }));
  const all = [{ name: 'all runs', numbers: numbers.all }];
  const more = numbers.models.length - shown.length;
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
    ${arrivals(numbers, steps)} ${versionOverview(numbers)}
    <section id="all" aria-labelledby="all-title">
      <h2 id="all-title">All runs</h2>
      <p>These add up models that do different work. Changes show in the parts on each model.</p>
      ${groupFigures(all, steps)}
      ${folded('All runs, in numbers', groupTable(all, 'All runs, in numbers', 'all-table'))}
      <p class="on-paper">Parts on models that are open on the screen are printed.</p>
    </section>
    <section id="models" aria-labelledby="models-title">
      <h2 id="models-title">Each model</h2>
      ${shown.map((model, i) => modelPart(model, i, steps, lists))}
      ${more > 0 ? html`<p>${countOf(more, 'more model')} with fewer runs.</p>` : NOTHING}
    </section>
    <section id="notes" aria-labelledby="notes-title">
      <h2 id="notes-title">How it is counted</h2>
      ${countingNotes(numbers)}
    </section>`;
}

/** The beginning and the end of the steps, below bars. */
function stepEnds({ since, until, steps }: ReportNumbers): Html {
  const first = shortDateText(steps.starts[0] ?? since);
  const last = shortDateText(new Date(Date.parse(until) - 1).toISOString());
  return html`<span class="ends"
    ><span>${first}</span>${first === last ? NOTHING : html`<span>${last}</span>`}</span
  >`;
}

function tile(name: string, number: string, more: string): Html {
  return html`<div>
    <dt>${name}</dt>
    <dd class="number">${number}</dd>
    <dd class="more">${more}</dd>
  </div>`;
}

function summary(numbers: ReportNumbers, lists: Lists): Html {
  const { all } = numbers;
  const runless = numbers.events_of_no_run.events;
  const { contradicted, thumbs_up: up, completeness, with_conflict: conflict } = all;
  const models = numbers.models.filter(({ model_id: id }) => id !== null).length;
  const calls = hasSeveralCalls(all) ? `, ${countOf(all.calls.calls, 'call')}` : '';
  const judged = `${ofText(contradicted)} judged runs; 95 % interval ${intervalText(contradicted)}`;
  const thumbs = all.feedback.thumbs > 0 ? 'none with a direction' : 'no thumbs';
  const whole = `${countOf(models, 'model')}${calls}, ${countOf(all.events, 'event')}`;
  const full = all.runs === 0 ? null : completeness.full / all.runs;
  const { failed } = all.calls;
  const findings = findingsOf(numbers);
  return html`<dl class="tiles">
      ${tile('Runs', countText(all.runs), whole)}
      ${tile('With an outcome', percent(all.with_outcome.share), `${ofText(all.with_outcome)} runs`)}
      ${tile('Contradicted', percent(contradicted.share), contradicted.of === 0 ? 'no judged run' : judged)}
      ${tile('Thumbs up', percent(up.share), up.of > 0 ? ofText(up) : thumbs)}
      ${tile('Full records', percent(full), `${countText(completeness.incomplete)} incomplete`)}
      ${failed.of === 0 ? NOTHING : tile('Failed calls', percent(failed.share), `${ofText(failed)} captured`)}
      ${tile('With a conflict', percent(conflict.share), `${ofText(conflict)} runs`)}
      ${runless === 0 ? NOTHING : tile('Events of no run', countText(runless), 'in no other number')}
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

function modelPart(model: ModelNumbers, i: number, steps: Steps, lists: Lists): Html {
  const shown = model.versions.slice(-MOST_VERSIONS);
  const groups = shown.map((version): NamedGroup => ({ name: versionText(version), numbers: version }));
  const all: NamedGroup[] = model.versions.length > 1 ? [{ name: 'all versions', numbers: model.all }] : [];
  const older = model.versions.length - shown.length;
  const sentences = [
    ...shown
      .filter(({ is_new: isNew }) => isNew)
      .map(
        (version) => `Version ${versionText(version)} is new: first seen on ${dateText(version.first_run)}.`,
      ),
    ...(older > 0 ? [`“All versions” includes ${countOf(older, 'older version')}.`] : []),
  ];
  return html`<section class="model" id="model-${i}" aria-labelledby="model-${i}-title">
    <details>
      <summary>
        <h3 id="model-${i}-title">${modelText(model)}</h3>
        <span class="gist">${gistOf(model)}</span>
      </summary>
      <p>${sentences.join(' ')}</p>
      ${groupFigures(groups, steps)}
      ${groupTable([...groups, ...all], `${modelText(model)}, version by version`, `model-${i}-table`)}
      ${lists(versionsToList(model.model_id, shown), `model-${i}-commands`)}
    </details>
  </section>`;
}

/** The line of a model while its part is closed. */
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

/** `--model` cannot name an unknown model. */
function versionsToList(modelId: string | null, versions: readonly VersionNumbers[]): ListedGroup[] {
  if (modelId === null) return [];
  return versions.map((version) => ({
    ...{ name: versionText(version), numbers: version, model: `${modelId}@${version.model_version ?? ''}` },
  }));
}

function footer({ made_at, log }: ReportNumbers): Html {
  const newest = log.ends_at === null ? '' : `; the newest was received on ${instantText(log.ends_at)}`;
  return html`<footer>
    <p>
      Made on ${instantText(made_at)} by <code>collector report</code>. The log has
      ${countOf(log.events, 'event')}${newest}. The page has counts and the names of models, versions and
      organisations as senders wrote them: no payload and no id of a person.
    </p>
  </footer>`;
}
