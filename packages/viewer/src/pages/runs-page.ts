/** The list of runs with its filter. It names no person. */
import { eventsOf, feedbackOf, notesOf } from '@clinical-events/collector/commands/run-list';
import { type Clock, OUTCOME_TEXT } from '@clinical-events/collector/records/vocabulary';
import { DAY_MS } from '@clinical-events/collector/quantity';
import { html, type Html, type Inner, NOTHING } from '@clinical-events/report/html';
import { countOf, countText } from '@clinical-events/report/wording';
import type { ListedRun } from '../contract.js';
import { FORM_TOKEN } from '../people/page-types.js';
import { clock, filterForm, queryOf } from './filter-form.js';
import { hidden, layout, problemText } from './layout.js';
import type { MadePage, RunsShown } from './page-types.js';
import { exactly, inline } from './text.js';
import { address, minuteText, runAddress, timeText } from './words.js';

export function runsPage(shown: RunsShown): MadePage {
  const { form, mayNamePersons, problem, acting } = shown;
  const title = isOfPerson(form) ? 'Runs of a person' : 'Runs';
  const main = html`<h1>${title}</h1>
    ${acting.role === 'clinician' ? ownRuns(shown) : NOTHING} ${problemText(problem)}
    ${isOfPerson(form) ? asked(shown) : filterForm(shown, 'runs')} ${listOf(shown)}
    ${mayNamePersons ? personForm(shown) : NOTHING}`;
  return { html: layout(shown, { title, main, current: 'runs' }) };
}

function isOfPerson({ target, user }: RunsShown['form']): boolean {
  return (target ?? '') !== '' || (user ?? '') !== '';
}

/** Without it an empty list would be a riddle to a person who calls no model, or by another name. */
function ownRuns({ acting }: RunsShown): Html {
  const caller = inline(acting.scope.caller ?? '');
  return html`<p class="hint">As a clinician you see the runs in which ${caller} called the model.</p>`;
}

/** Whose runs are listed, as the person typed it. */
function asked({ form, acting }: RunsShown): Html {
  const { target = '', user = '' } = form;
  const words = [
    ...(target === '' ? [] : [html`about ${inline(target)}`]),
    ...(user === '' ? [] : [html`called by ${inline(user)}`]),
  ];
  return html`<p>Runs ${words.map((word, i) => html`${i === 0 ? '' : ' and '}${word}`)}.</p>
    <p class="off-paper"><a href="/${acting.role}/runs">Back to all runs</a></p>`;
}

function listOf(shown: RunsShown): Html {
  const { list, page } = shown;
  if (list === undefined) return NOTHING;
  if (list.runs.length === 0) return emptiness(shown);
  const by: Clock = shown.form['clock'] === 'sender' ? 'sender' : 'received';
  const columns = COLUMNS.filter(
    ({ isRare, of }) => isRare !== true || list.runs.some((run) => of(run) !== undefined),
  );
  // The number of all runs is not known.
  const isPart = page > 1 || list.hasMore;
  const apart = by === 'received' && list.runs.some(areClocksApart);
  return html`<div class="wide" role="group" aria-labelledby="list-caption" tabindex="0">
      <table class="cards">
        <caption id="list-caption">
          ${countOf(list.runs.length, 'run')}${isPart ? ` on page ${page}` : ''}, newest first; times in UTC
          by the ${by === 'sender' ? 'senders’ clocks' : 'collector’s clock'}
        </caption>
        <thead>
          <tr>
            <th scope="col">Began</th>
            ${columns.map(({ name }) => html`<th scope="col">${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${list.runs.map((run) => row(shown, columns, run, by))}
        </tbody>
      </table>
    </div>
    ${apart ? html`<p class="hint">${clockHint(shown)}</p>` : NOTHING} ${pages(shown)}`;
}

interface Column {
  readonly name: string;
  /** Undefined: the run has no value. */
  readonly of: (run: ListedRun) => Inner | undefined;
  /** Left out if no run of the list has a value, as on a terminal. */
  readonly isRare?: true;
}

const COLUMNS: readonly Column[] = [
  { name: 'Organisation', of: ({ organisation }) => inline(organisation) },
  { name: 'Application', of: ({ application }) => (application === null ? undefined : inline(application)) },
  { name: 'Model', of: modelHtml },
  { name: 'Outcome', of: ({ outcome }) => word(outcome, OUTCOME_TEXT[outcome]) },
  { name: 'Feedback', of: (run) => feedbackOf(run).join(', ') || undefined, isRare: true },
  { name: 'Events', of: (run) => countText(eventsOf(run)) },
  { name: 'Record', of: ({ level }) => word(level, level) },
  { name: 'Notes', of: noteHtml, isRare: true },
];

function word(name: string, text: string): Html {
  return html`<span class="word is-${name}">${text}</span>`;
}

/** The level of the record has a column of its own. */
function noteHtml(run: ListedRun): Html | undefined {
  const notes = notesOf(run).filter((note) => note !== run.level);
  return notes.length === 0 ? undefined : word('noted', notes.join(', '));
}

function row({ acting }: RunsShown, columns: readonly Column[], run: ListedRun, clock: Clock): Html {
  const { organisation, recordId, began } = run;
  return html`<tr>
    <th scope="row">
      <a href="${runAddress(acting.role, recordId, organisation)}"
        >${minuteText(began[clock])} <span class="id">${recordId.slice(0, 8)}</span></a
      >
    </th>
    ${columns.map(({ name, of }) => html`<td data-name="${name}">${of(run) ?? NONE}</td>`)}
  </tr>`;
}

const NONE = html`<span class="none">–</span>`;

function modelHtml({ modelId, modelVersion }: ListedRun): Html {
  if (modelId === null) return html`<span class="version">not known</span>`;
  if (modelVersion === null || modelVersion === modelId) return inline(modelId);
  return html`${inline(modelId)} <span class="version">${inline(modelVersion)}</span>`;
}

function areClocksApart({ began }: ListedRun): boolean {
  return Math.abs(began.received - began.sender) > DAY_MS;
}

function emptiness(shown: RunsShown): Html {
  const { form, page, state } = shown;
  const entries = `${countText(state.entries)} ${state.entries === 1 ? 'entry' : 'entries'}`;
  const covers =
    state.catalogue === 'ready'
      ? `The list covers ${entries} of the log${state.asOf === undefined ? '' : `, as of ${timeText(state.asOf)}`}.`
      : 'The list is not complete yet: runs may be missing from it.';
  return html`<p class="lead">${page > 1 ? 'There is no older run.' : 'No run matches.'}</p>
    <p>${covers} Names are compared exactly, with capital and small letters.</p>
    ${form['clock'] === 'sender' ? NOTHING : html`<p class="hint">${clockHint(shown)}</p>`} ${pages(shown)}`;
}

/** After an import, all runs began on the day of the import by the collector's clock. */
function clockHint({ acting, form }: RunsShown): Html {
  const words = `These are times of receipt. After an import, runs may have begun on other days by the sender’s clock`;
  if (isOfPerson(form)) return html`${words}.`;
  const there = address(`/${acting.role}/runs`, { ...queryOf(form), clock: 'sender' });
  return html`${words}: <a href="${there}">show times of the senders’ clocks</a>.`;
}

/** Newer and older runs: links, or forms where the question names a person. */
function pages(shown: RunsShown): Html {
  const { list, page } = shown;
  const newer = page > 1 ? step(shown, page - 1, 'Newer runs') : NOTHING;
  const older = list?.hasMore === true ? step(shown, page + 1, 'Older runs') : NOTHING;
  if (newer === NOTHING && older === NOTHING) return NOTHING;
  return html`<nav class="pages" aria-label="More runs">${newer} ${older}</nav>`;
}

function step({ acting, form, formToken }: RunsShown, page: number, text: string): Html {
  const path = `/${acting.role}/runs`;
  const number = page === 1 ? undefined : String(page);
  if (!isOfPerson(form))
    return html`<a href="${address(path, { ...queryOf(form), page: number })}">${text}</a>`;
  const fields = Object.entries({ ...form, page: String(page), [FORM_TOKEN]: formToken });
  return html`<form method="post" action="${path}">
    ${fields.map(([name, value]) => hidden(name, value))}<button>${text}</button>
  </form>`;
}

/** The look-up of a person: by POST, so that no id is in an address. */
function personForm({ acting, form, formToken }: RunsShown): Html {
  const field = (name: 'target' | 'user', label: string) =>
    html`<label
      >${label}
      <input
        name="${name}"
        value="${exactly(form[name] ?? '')}"
        autocomplete="off"
        autocapitalize="off"
        spellcheck="false"
    /></label>`;
  const caller = acting.role === 'clinician' ? NOTHING : field('user', 'Id of the caller');
  const who = acting.role === 'clinician' ? 'a patient' : 'a patient or a caller';
  return html`<section class="look-up" aria-labelledby="look-up-title">
    <h2 id="look-up-title">Find the runs of ${who}</h2>
    <p id="look-up-note">
      The id must be exactly as the application sent it. That you looked a person up is recorded with your
      name; the id itself is not.
    </p>
    <form
      class="fields"
      method="post"
      action="/${acting.role}/runs"
      autocomplete="off"
      aria-describedby="look-up-note"
    >
      ${hidden(FORM_TOKEN, formToken)} ${field('target', 'Id of the patient, document or claim')} ${caller}
      ${clock(form)}
      <button>Find runs</button>
    </form>
  </section>`;
}
