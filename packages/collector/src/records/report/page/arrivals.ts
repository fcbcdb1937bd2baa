/** What came, kind by kind and step by step, and from which organisation. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { ReportNumbers } from '../report-numbers.js';
import { bars } from './chart-marks.js';
import { html, NOTHING, type Html } from './html.js';
import { countOf, countText, shortDateText } from './wording.js';

const HEIGHT = 64;
/** Rows of the table of organisations. */
const MOST_ROWS = 60;

export function arrivals(numbers: ReportNumbers, ends: Html): Html {
  const { steps, events_by_step: byStep, other_runs: other } = numbers;
  const series = [
    { name: 'runs that began', values: numbers.all.runs_by_step },
    ...EVENT_KINDS.map((kind) => ({ name: `${kind} events`, values: byStep[kind] })),
  ];
  return html`<section id="arrived" aria-labelledby="arrived-title">
    <h2 id="arrived-title">What arrived, by the ${steps.unit}</h2>
    ${other.runs > 0 ? html`<p>Among them ${countOf(other.events, 'event')} of ${countOf(other.runs, 'run')} that began outside the period.</p>` : NOTHING}
    <div class="figures kinds">
      ${series.map(({ name, values }) => {
        const most = Math.max(...values);
        const all = values.reduce((sum, value) => sum + value, 0);
        return html`<figure>
          <figcaption>
            <strong>${name}</strong><br />${countText(all)} in all, at most ${countText(most)} a ${steps.unit}
          </figcaption>
          ${bars(values, most, HEIGHT, `${name} a ${steps.unit}, ${countText(all)} in all`)}${ends}
        </figure>`;
      })}
    </div>
    <details>
      <summary>The numbers of each ${steps.unit}</summary>
      <div class="wide" role="region" tabindex="0" aria-labelledby="steps-table">
        <table>
          <caption id="steps-table">
            Runs and events a ${steps.unit}
          </caption>
          <thead>
            <tr>
              <th class="text" scope="col">${steps.unit} from</th>
              ${series.map(({ name }) => html`<th scope="col">${name}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${steps.starts.map(
              (start, i) =>
                html`<tr>
                  <th scope="row">${shortDateText(start)}</th>
                  ${series.map(({ values }) => html`<td>${countText(values[i] ?? 0)}</td>`)}
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </details>
    ${organisations(numbers)}
  </section>`;
}

function organisations({ organisations: all, organisations_not_told_apart: rest }: ReportNumbers): Html {
  const rows = all.slice(0, MOST_ROWS);
  const summed = all
    .slice(MOST_ROWS)
    .reduce((sum, { runs, events }) => ({ runs: sum.runs + runs, events: sum.events + events }), rest);
  return html`<table class="short">
    <caption>
      By organisation
    </caption>
    <thead>
      <tr>
        <th class="text" scope="col">organisation</th>
        <th scope="col">runs</th>
        <th scope="col">events</th>
      </tr>
    </thead>
    <tbody>
      ${[...rows, ...(summed.events > 0 ? [{ name: 'others', ...summed }] : [])].map(
        ({ name, runs, events }) =>
          html`<tr>
            <th scope="row">${name}</th>
            <td>${countText(runs)}</td>
            <td>${countText(events)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** Under bars: when they begin and end. */
export function stepEnds({ since, until, steps }: ReportNumbers): Html {
  const first = shortDateText(steps.starts[0] ?? since);
  const last = shortDateText(new Date(Date.parse(until) - 1).toISOString());
  return html`<span class="ends"
    ><span>${first}</span>${first === last ? NOTHING : html`<span>${last}</span>`}</span
  >`;
}
