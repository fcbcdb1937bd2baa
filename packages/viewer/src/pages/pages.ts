/** All pages about runs. Each is made from its data alone. */
import { html } from '@clinical-events/report/html';
import { layout } from './layout.js';
import type { LogPages, MadePage, RefusalShown } from './page-types.js';
import { proofPage } from './proof-page.js';
import { reportPage } from './report-page.js';
import { marked } from './text.js';
import { runPage } from './run-page.js';
import { runsPage } from './runs-page.js';

function refusal(shown: RefusalShown): MadePage {
  const { title, sentences } = shown;
  const main = html`<h1>${marked(title)}</h1>
    ${sentences.map((sentence) => html`<p>${marked(sentence)}</p>`)}
    <p><a class="button" href="/${shown.acting.role}/runs">To the list of runs</a></p>`;
  return { html: layout(shown, { title, main }) };
}

export const logPages: LogPages = {
  runs: runsPage,
  run: runPage,
  proof: proofPage,
  report: reportPage,
  refusal,
};

export { peoplePages } from './people-pages.js';
