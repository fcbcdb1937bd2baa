/** Every version of every model in one table. */
import type { ModelNumbers, ReportNumbers, VersionNumbers } from '../report-numbers.js';
import { html, NOTHING, type Html } from './html.js';
import { countOf, countText, dateText, durationText, modelText, percent, versionText } from './wording.js';

const MOST_ROWS = 60;

export function versionOverview({ models, models_not_told_apart: untold }: ReportNumbers): Html {
  const all = models.flatMap((model) => model.versions.map((version) => ({ model, version })));
  const rows = all.slice(0, MOST_ROWS);
  return html`<section id="versions" aria-labelledby="versions-title">
    <h2 id="versions-title">Models and versions</h2>
    <div class="wide" role="region" tabindex="0" aria-labelledby="versions-table">
      <table>
        <caption id="versions-table">
          Each version that has runs or events in the period
        </caption>
        <thead>
          <tr>
            <th class="text" scope="col">model</th>
            <th class="text" scope="col">version</th>
            <th scope="col">first run</th>
            <th scope="col">runs</th>
            <th scope="col">events</th>
            <th scope="col">with an outcome</th>
            <th scope="col">contradicted, of judged</th>
            <th scope="col">latency p50</th>
            <th scope="col">latency p95</th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(({ model, version }) => versionRow(model, version))}
          ${
            untold.events > 0
              ? html`<tr>
                  <th scope="row">others</th>
                  <td class="text"></td>
                  <td>${dateText(untold.first_run)}</td>
                  <td>${countText(untold.runs)}</td>
                  <td>${countText(untold.events)}</td>
                  <td>${percent(untold.with_outcome.share)}</td>
                  <td>${percent(untold.contradicted.share)}</td>
                  <td></td>
                  <td></td>
                </tr>`
              : NOTHING
          }
        </tbody>
      </table>
    </div>
    ${
      all.length > rows.length
        ? html`<p>
            ${countOf(all.length - rows.length, 'more version')} with
            ${countOf(
              all.slice(MOST_ROWS).reduce((sum, { version }) => sum + version.runs, 0),
              'run',
            )},
            of models that have fewer runs than these.
          </p>`
        : NOTHING
    }
  </section>`;
}

function versionRow(model: ModelNumbers, version: VersionNumbers): Html {
  const { contradicted, latency_ms: latency } = version;
  return html`<tr>
    <th scope="row">${modelText(model)}</th>
    <td class="text">
      ${versionText(version)}${version.is_new ? html` <span class="new">new</span>` : NOTHING}
    </td>
    <td>${dateText(version.first_run)}</td>
    <td>${countText(version.runs)}</td>
    <td>${countText(version.events)}</td>
    <td>${percent(version.with_outcome.share)}</td>
    <td>
      ${contradicted.of === 0 ? '–' : `${percent(contradicted.share)} of ${countText(contradicted.of)}`}
    </td>
    <td>${durationText(latency.p50)}</td>
    <td>${durationText(latency.p95)}</td>
  </tr>`;
}
