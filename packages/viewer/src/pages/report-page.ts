/** The report of a period: the same page as `collector report`, below the viewer's bar and form. */
import { Html, html } from '@clinical-events/report/html';
import { reportParts, type RunsListed, STYLE } from '@clinical-events/report/report-page';
import { filterForm } from './filter-form.js';
import { REPORT_HEADERS } from './headers.js';
import { documentOf, layout, problemText, regionBar } from './layout.js';
import type { MadePage, ReportShown } from './page-types.js';
import { address, ROLE_TEXT } from './words.js';

export function reportPage(shown: ReportShown): MadePage {
  const { numbers, acting, problem } = shown;
  const form = filterForm(shown, 'report');
  if (numbers === undefined) {
    const main = html`<h1>Report</h1>
      <p>
        A report counts the runs of a period by model and version. It has no contents and names no person. For
        a long period it can take a minute.
      </p>
      ${problemText(problem)} ${form}`;
    return { html: layout(shown, { title: 'Report', main, current: 'report' }) };
  }
  const parts = reportParts(numbers, byLinks(acting.role));
  // Not by a template for `html`: its formatter would change the text that the policy has the hash of.
  const style = new Html(`<style>${STYLE.text}</style>`);
  const page = documentOf({
    title: `${parts.title} – ${ROLE_TEXT[acting.role].name}`,
    head: style,
    body: html`<body class="with-report">
      ${regionBar(shown, 'report')}
      <section class="masthead off-paper" aria-label="Another report">
        <details>
          <summary>Another period, organisation or model</summary>
          ${form}
        </details>
      </section>
      <div class="page">
        ${parts.header}
        <main id="main" tabindex="-1">${parts.main}</main>
        ${parts.footer}
      </div>
    </body>`,
  });
  return { html: page, headers: REPORT_HEADERS };
}

/** Links to the list of runs in place of commands. */
function byLinks(role: string): RunsListed {
  return {
    summary: 'Show the runs behind these numbers',
    caption: 'Lists of these runs',
    column: 'list',
    cell: (options) => html`<a href="${address(`/${role}/runs`, queryFrom(options))}">Show these runs</a>`,
  };
}

/** The query of a list from the options of `collector runs`. */
function queryFrom(options: readonly string[]): Record<string, string> {
  const query: Record<string, string> = {};
  for (let i = 0; i + 1 < options.length; i += 2) {
    const [name = '', value = ''] = options.slice(i, i + 2);
    if (name !== '--limit') query[name.replace('--', '')] = value;
  }
  return query;
}
