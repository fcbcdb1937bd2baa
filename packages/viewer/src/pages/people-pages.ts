/** The pages around a login: signing in, roles, break-glass and messages. */
import { Html, html, NOTHING } from '@clinical-events/report/html';
import {
  type BreakGlassShown,
  type ContinueShown,
  FORM_TOKEN,
  type MessageShown,
  type PeoplePages,
  type RoleShown,
  type RolesShown,
  type SignInShown,
} from '../people/page-types.js';
import { documentOf, hidden, loginBar, plainPage, problemText } from './layout.js';
import { exactly, inline, marked } from './text.js';
import { capital, ROLE_TEXT, secondHtml } from './words.js';

function signIn(shown: SignInShown): string {
  const problem = 'problem' in shown ? shown.problem : undefined;
  const main = html`<h1>Sign in</h1>
    <p>Here you look at runs of clinical AI. Every look is recorded with your name.</p>
    ${shown.how === 'local' || shown.how === 'proxy' ? NOTHING : problemText(problem)} ${wayIn(shown)}`;
  return plainPage({ title: 'Sign in', main });
}

function wayIn(shown: SignInShown): Html {
  if (shown.how === 'oidc')
    return html`<p><a class="button" href="/sign-in/begin">Sign in at ${inline(shown.provider)}</a></p>`;
  if (shown.how === 'link')
    return html`<form method="post" action="/sign-in/link">
      ${hidden('token', shown.token)}<button>Sign in with this one-time link</button>
    </form>`;
  return html`<p class="notice" role="status">
    ${marked(capital(shown.problem ?? WITHOUT_LINK[shown.how]))}
  </p>`;
}

const WITHOUT_LINK = {
  local: 'The one-time link stands on the terminal on which collector-viewer was started.',
  proxy: 'The proxy in front of this viewer signs you in. It sent no name.',
};

function roles({ name, roles: all, notes, signOutToken }: RolesShown): string {
  const main = html`<h1>Your roles</h1>
    ${
      all.length === 0
        ? html`<p class="lead">You have no role here.</p>`
        : html`<p>Choose in which role you look. Two windows may have two roles.</p>
            <ul class="roles">
              ${all.map(roleItem)}
            </ul>`
    }
    ${notes.map((note) => html`<p class="notice">${marked(note)}</p>`)}`;
  return plainPage({ title: 'Your roles', main, top: loginBar(name, signOutToken) });
}

function roleItem({ role, path, organisations, applications }: RoleShown): Html {
  return html`<li>
    <a href="${path}">${ROLE_TEXT[role].name}</a>
    <p>You see ${ROLE_TEXT[role].sees}.</p>
    <p class="scope">${scope('Organisations', organisations)}; ${scope('applications', applications)}.</p>
  </li>`;
}

function scope(what: string, names: readonly string[] | undefined): Html {
  if (names === undefined) return html`${what}: all`;
  return html`${what}: ${names.map((name, i) => html`${i === 0 ? '' : ', '}${inline(name)}`)}`;
}

function breakGlass(shown: BreakGlassShown): string {
  const { name, formToken, signOutToken, problem, reason, minutes, grantedUntil } = shown;
  const { leastCharacters, mostCharacters } = shown;
  const main = html`<h1>Break-glass</h1>
    <p class="lead">
      With break-glass you see all runs of all organisations with their contents, for ${minutes} minutes.
    </p>
    <p>
      Use it if a person may come to harm otherwise. Your name, your reason and each page are recorded, and
      the operator is warned immediately.
    </p>
    ${
      grantedUntil === undefined
        ? NOTHING
        : html`<p class="notice">
            It is granted until ${secondHtml(grantedUntil)}. <a href="/break-glass/runs">Show the runs</a>
          </p>`
    }
    ${problemText(problem)}
    <form class="reason" method="post" action="/break-glass" autocomplete="off">
      ${hidden(FORM_TOKEN, formToken)}
      <label for="reason">Your reason, at least ${leastCharacters} characters</label>
      ${textArea(shown)}
      <p id="reason-note">
        It stays in the access log. Do not name a patient. At most ${mostCharacters} characters.
      </p>
      <button>Show everything for ${minutes} minutes</button>
    </form>
    <p><a href="/">Back to your roles</a></p>`;
  return plainPage({ title: 'Break-glass', main, top: loginBar(name, signOutToken) });

  function textArea({ leastCharacters: least, mostCharacters: most }: BreakGlassShown): Html {
    // A line break right after the tag is not part of the text.
    return new Html(
      `<textarea id="reason" name="reason" rows="4" required minlength="${least}" maxlength="${most}" ` +
        `aria-describedby="reason-note">\n${exactly(reason).text}</textarea>`,
    );
  }
}

function message({ title, sentences, link }: MessageShown): string {
  const main = html`<h1>${marked(title)}</h1>
    ${sentences.map((sentence) => html`<p>${marked(sentence)}</p>`)}
    ${link === undefined ? NOTHING : html`<p><a class="button" href="${LINKS[link].to}">${LINKS[link].text}</a></p>`}`;
  return plainPage({ title, main });
}

const LINKS = {
  'sign-in': { to: '/sign-in', text: 'Sign in' },
  roles: { to: '/', text: 'Your roles' },
};

function continueTo({ title, to, text }: ContinueShown): string {
  return documentOf({
    title,
    head: html`<meta http-equiv="refresh" content="0; url=${to}" />`,
    body: html`<body class="viewer plain">
      <main id="main">
        <h1>${marked(title)}</h1>
        <p><a class="button" href="${to}">${marked(text)}</a></p>
      </main>
    </body>`,
  });
}

export const peoplePages: PeoplePages = { signIn, roles, breakGlass, message, continueTo };
