/** The contradictions of a run, in words. */
import type { Conflict } from '@clinical-events/protocol';
import { html, type Html, NOTHING } from '@clinical-events/report/html';
import { CONFLICT_TEXT } from '@clinical-events/report/wording';
import type { RunView } from './event-part.js';
import type { RunShown } from './page-types.js';
import { capital, runAddress } from './words.js';

export function conflictsPart({ run }: RunShown, view: RunView): Html {
  const { conflicts } = run.record.metadata;
  if (conflicts.length === 0) return NOTHING;
  return html`<section aria-labelledby="conflicts-title">
    <h2 id="conflicts-title">Contradictions</h2>
    <ul>
      ${conflicts.map((conflict) => html`<li>${conflictHtml(conflict, view)}</li>`)}
    </ul>
  </section>`;
}

function conflictHtml({ kind, rule, event_ids: events, run_ids: runs = [] }: Conflict, view: RunView): Html {
  const words =
    kind === 'clock_disorder' ? (rule === undefined ? undefined : CONFLICT_TEXT[rule]) : CONFLICT_TEXT[kind];
  const runLink = (id: string) =>
    html`<a class="id" href="${runAddress(view.role, id, view.organisation)}">run ${id}</a>`;
  const links = [...events.map((id) => view.eventLink(id)), ...runs.map(runLink)];
  return html`${capital(words ?? 'clocks that disagree')}:
  ${links.map((link, i) => html`${i === 0 ? '' : ', '}${link}`)}.`;
}
