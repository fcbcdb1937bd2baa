/** The form that selects runs for a list or a report, by GET. */
import { FEEDBACK_ASKED, OUTCOMES_ASKED, STATES } from '@clinical-events/collector/commands/run-filter';
import { Html, html, NOTHING } from '@clinical-events/report/html';
import { hidden } from './layout.js';
import type { ReportShown, RunsShown } from './page-types.js';
import { exactly, plain } from './text.js';
import { capital } from './words.js';

type Form = RunsShown['form'];

const QUERY = ['organisation', 'model', 'app', 'outcome', 'feedback', 'only', 'since', 'until', 'clock'];

/** The query of the form, without tokens and ids of persons. */
export function queryOf(form: Form): Record<string, string | undefined> {
  return Object.fromEntries(QUERY.map((name) => [name, form[name]]));
}

/** More names than this are suggestions of a text field, not a list to choose from. */
const MOST_CHOICES = 100;

export function filterForm(shown: RunsShown | ReportShown, page: 'runs' | 'report'): Html {
  const { acting, form, names } = shown;
  const { organisations, applications, models } = names;
  const ofRuns = html`${named(form, 'app', 'Application', applications)}
  ${choice(form, 'outcome', 'Last outcome', worded(OUTCOMES_ASKED))}
  ${choice(form, 'feedback', 'Feedback', worded(FEEDBACK_ASKED))}
  ${choice(form, 'only', 'Only runs that are', worded(STATES))}`;
  return html`<form class="fields" method="get" action="/${acting.role}/${page}" role="search">
    ${page === 'report' ? hidden('show', 'yes') : NOTHING}
    ${named(form, 'organisation', 'Organisation', organisations)}
    ${suggested(form, 'model', 'Model, or model@version', models)} ${page === 'runs' ? ofRuns : NOTHING}
    ${day(form, 'since', page === 'runs' ? 'Began on or after (UTC)' : 'From (UTC)')}
    ${day(form, 'until', page === 'runs' ? 'Began before (UTC)' : 'Before (UTC)')} ${clock(form)}
    <button>${page === 'runs' ? 'Show runs' : 'Show the report'}</button>
    <a class="reset" href="/${acting.role}/${page}">Clear</a>
  </form>`;
}

function worded(words: readonly string[]): (readonly [string, string])[] {
  return words.map((word) => [word, capital(word.replaceAll('-', ' '))]);
}

/** The choice of the clock by which the times of a list are shown. */
export function clock(form: Form): Html {
  const choices = [['sender', 'The senders’ clocks']] as const;
  return choice(form, 'clock', 'Times by', choices, 'The collector’s clock');
}

/** A list to choose from, or a field with suggestions if the list is long. */
function named(form: Form, name: string, label: string, values: readonly string[]): Html {
  if (values.length > MOST_CHOICES) return suggested(form, name, label, values);
  return choice(
    form,
    name,
    label,
    values.map((value) => [value, value]),
  );
}

function choice(
  form: Form,
  name: string,
  label: string,
  choices: readonly (readonly [value: string, text: string])[],
  all = 'Any',
): Html {
  const value = form[name] ?? '';
  // A value from a link stays selected.
  const isKnown = choices.some(([each]) => each === value) || value === '' || value === 'received';
  const options = isKnown ? choices : [...choices, [value, value] as const];
  return html`<label
    >${label}
    <select name="${name}">
      <option value="">${all}</option>
      ${options.map(
        ([each, text]) =>
          html`<option value="${exactly(each)}" ${each === value ? 'selected' : ''}>${plain(text)}</option>`,
      )}
    </select></label
  >`;
}

/** A text field with the known names as suggestions. */
function suggested(form: Form, name: string, label: string, values: readonly string[]): Html {
  return html`<label
    >${label}
    <input name="${name}" value="${exactly(form[name] ?? '')}" list="${name}-names" spellcheck="false" />
    <datalist id="${name}-names">
      ${values.map((value) => html`<option value="${exactly(value)}"></option>`)}
    </datalist></label
  >`;
}

/** A day, or a time as a link of a report has it. */
function day(form: Form, name: 'since' | 'until', label: string): Html {
  const value = form[name] ?? '';
  const type = /^(?:\d{4}-\d\d-\d\d)?$/.test(value) ? 'date' : 'text';
  return html`<label>${label} <input type="${type}" name="${name}" value="${exactly(value)}" /></label>`;
}
