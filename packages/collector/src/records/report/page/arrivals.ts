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
  const { steps, events_by_step: byStep, events_of_no_run: ofNoRun, other_runs: other } = numbers;
  const series = [
    { name: 'runs that began', values: numbers.all.runs_by_step },
    ...EVENT_KINDS.map((kind) => ({ name: `${kind} events`, values: byStep[kind] })),
    ...(ofNoRun.events > 0 ? [{ name: 'events of no run', values: stepSums(ofNoRun.by_step) }] : []),
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

/** Of all kinds together. */
function stepSums(byStep: ReportNumbers['events_by_step']): number[] {
  return byStep['inference-start'].map((_, step) =>
    EVENT_KINDS.reduce((sum, kind) => sum + (byStep[kind][step] ?? 0), 0),
  );
}

function organisations(numbers: ReportNumbers): Html {
  const { organisations: all, organisations_not_told_apart: rest } = numbers;
  const rows = all.slice(0, MOST_ROWS);
  const summed = all.slice(MOST_ROWS).reduce(
    (sum, { runs, events, events_of_no_run: ofNoRun }) => ({
      runs: sum.runs + runs,
      events: sum.events + events,
      events_of_no_run: sum.events_of_no_run + ofNoRun,
    }),
    rest,
  );
  const others = summed.events + summed.events_of_no_run > 0 ? [{ name: 'others', ...summed }] : [];
  const runless = numbers.events_of_no_run.events > 0;
  return html`<table class="short">
    <caption>
      By organisation
    </caption>
    <thead>
      <tr>
        <th class="text" scope="col">organisation</th>
        <th scope="col">runs</th>
        <th scope="col">events</th>
        ${runless ? html`<th scope="col">events of no run</th>` : NOTHING}
      </tr>
    </thead>
    <tbody>
      ${[...rows, ...others].map(
        ({ name, runs, events, events_of_no_run: ofNoRun }) =>
          html`<tr>
            <th scope="row">${name}</th>
            <td>${countText(runs)}</td>
            <td>${countText(events)}</td>
            ${runless ? html`<td>${countText(ofNoRun)}</td>` : NOTHING}
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
