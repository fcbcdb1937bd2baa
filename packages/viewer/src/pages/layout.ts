/** The document around every page, and the bar above every page of a role. */
import { Html, html, type Inner, NOTHING } from '@clinical-events/report/html';
import { countText, wholePercent } from '@clinical-events/report/wording';
import { FORM_TOKEN } from '../people/page-types.js';
import type { Frame } from './page-types.js';
import { exactly, inline, marked, plain } from './text.js';
import { capital, ROLE_TEXT, secondHtml } from './words.js';

interface Document {
  readonly title: string;
  /** Further elements of `head`. */
  readonly head?: Html;
  /** The contents of `body`. */
  readonly body: Html;
}

export function documentOf({ title, head = NOTHING, body }: Document): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <title>${plain(title)}</title>
        <link rel="stylesheet" href="/viewer.css" />
        ${head}
      </head>
      ${body}
    </html> `.text;
}

const SKIP = html`<a class="skip" href="#main">Skip to the contents</a>`;

/** Within the tag of a link. */
const CURRENT = new Html(' aria-current="page"');

interface RolePage {
  readonly title: string;
  /** The contents of `main`, with the only h1. */
  readonly main: Html;
  /** The navigation link of this page. */
  readonly current?: 'runs' | 'report';
}

/** A page of a role. */
export function layout(frame: Frame, { title, main, current }: RolePage): string {
  return documentOf({
    title: `${title} – ${ROLE_TEXT[frame.acting.role].name}`,
    body: html`<body class="viewer">
      ${SKIP}
      <header class="masthead">${bar(frame, current)}</header>
      <main id="main" tabindex="-1">${main}</main>
    </body>`,
  });
}

/** The same bar above a page with a banner of its own. */
export function regionBar(frame: Frame, current: 'report'): Html {
  return html`${SKIP}
    <section class="masthead" aria-label="Viewer">${bar(frame, current)}</section>`;
}

function bar(frame: Frame, current: RolePage['current']): Html {
  const { acting, otherRoles, signOutToken } = frame;
  const { role, person } = acting;
  const link = (name: 'runs' | 'report', text: string) =>
    html`<li><a href="/${role}/${name}" ${name === current ? CURRENT : NOTHING}>${text}</a></li>`;
  return html`<div class="who">
      <nav aria-label="Pages">
        <ul>
          ${link('runs', 'Runs')} ${role === 'clinician' ? NOTHING : link('report', 'Report')}
        </ul>
      </nav>
      <p class="person">${inline(person.name)} as <strong>${ROLE_TEXT[role].name.toLowerCase()}</strong></p>
      ${
        otherRoles.length === 0
          ? NOTHING
          : html`<nav aria-label="Your other roles">
              <ul>
                ${otherRoles.map(
                  (other) =>
                    html`<li><a href="${other.path}">As ${ROLE_TEXT[other.role].name.toLowerCase()}</a></li>`,
                )}
              </ul>
            </nav>`
      }
      ${signOut(signOutToken)}
    </div>
    ${role === 'break-glass' ? breakGlassBanner(frame) : NOTHING}
    <p class="state">${stateText(frame)}</p>
    <p class="on-paper">
      Shown to ${inline(person.name)} as ${ROLE_TEXT[role].name.toLowerCase()} on ${secondHtml(Date.now())}.
      Every look is recorded.
    </p>`;
}

function signOut(token: string): Html {
  return html`<form class="sign-out" method="post" action="/sign-out">
    ${hidden(FORM_TOKEN, token)}<button>Sign out</button>
  </form>`;
}

export function hidden(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${exactly(value)}" />`;
}

function breakGlassBanner({ acting, grantedUntil }: Frame): Html {
  return html`<div class="alarm" role="note" aria-label="Break-glass">
    <p>
      <strong>Break-glass: you see everything.</strong> Each page is recorded with your name and your
      reason${grantedUntil === undefined ? '' : html`, and it ends at ${secondHtml(grantedUntil)}`}.
    </p>
    <p>Your reason: ${marked(acting.reason ?? 'not stated')}</p>
  </div>`;
}

/** The extent of the lists, and data that cannot be shown now. */
function stateText({ state }: Frame): Inner {
  const { catalogue, progress, reason, keys, entries, asOf } = state;
  const upTo = asOf === undefined ? NOTHING : html`, as of ${secondHtml(asOf)}`;
  const list =
    catalogue === 'ready'
      ? html`The list covers the log up to ${countText(entries)}
        ${entries === 1 ? 'entry' : 'entries'}${upTo}.`
      : catalogue === 'building'
        ? html`<strong>The list is being made: ${wholePercent(Math.min(progress, 0.99))}.</strong> Runs are
            missing until it is complete.`
        : html`<strong
            >The list cannot be used now${reason === undefined ? '' : html`: ${marked(reason)}`}.</strong
          >`;
  if (keys !== 'away') return list;
  return html`${list} <strong>The keys are away: contents cannot be shown.</strong> Times, models and proofs
    can.`;
}

/** A page for a person without a role. @param top the bar, if any. */
export function plainPage({ title, main, top }: { title: string; main: Html; top?: Html }): string {
  return documentOf({
    title: `${title} – Clinical AI runs`,
    body: html`<body class="viewer plain">
      ${top === undefined ? NOTHING : html`<header class="masthead">${top}</header>`}
      <main id="main" tabindex="-1">${main}</main>
    </body>`,
  });
}

/** The bar above a page around a login. */
export function loginBar(name: string, signOutToken: string): Html {
  return html`<div class="who">
    <p class="person">${inline(name)}</p>
    ${signOut(signOutToken)}
  </div>`;
}

/** Something that went wrong or needs attention, announced first. */
export function problemText(problem: string | undefined): Html {
  if (problem === undefined) return NOTHING;
  return html`<p class="problem" role="alert">${marked(capital(problem))}</p>`;
}
