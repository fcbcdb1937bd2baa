/** The proof that an event is in the log. */
import { type Html, html, NOTHING } from '@clinical-events/report/html';
import { countText } from '@clinical-events/report/wording';
import { layout } from './layout.js';
import type { MadePage, ProofShown } from './page-types.js';
import { block, inline } from './text.js';
import { address, facts, runAddress, timeHtml } from './words.js';

export function proofPage(shown: ProofShown): MadePage {
  const { proof, organisation, acting } = shown;
  const { sequence, eventId, recordId, checkpointAt, checkpointSize, cosignedBy, verifierKey, text } = proof;
  const title = `Proof of event ${countText(sequence)}`;
  const file = `/${acting.role}/proof/${encodeURIComponent(eventId)}`;
  const main = html`<h1>${title}</h1>
    <p class="lead">
      Event ${countText(sequence)} of the log, in the checkpoint
      ${checkpointAt === undefined ? NOTHING : html`of ${timeHtml(checkpointAt)}, which covers`}
      ${checkpointAt === undefined ? 'of ' : ''}${countText(checkpointSize)} entries; signature verified.
    </p>
    ${facts([
      ['Event id', html`<code>${eventId}</code>`],
      ['Run', html`<a class="id" href="${runAddress(acting.role, recordId, organisation)}">${recordId}</a>`],
      ['Organisation', inline(organisation)],
      ['Signed by', html`<code>${inline(verifierKey)}</code>`],
      [
        'Cosigned by',
        cosignedBy.length === 0
          ? 'no witness'
          : cosignedBy.map((name, i) => html`${i === 0 ? '' : ', '}${inline(name)}`),
      ],
    ])}
    ${text === undefined ? WITHOUT_FILE : filePart(eventId, text, address(file, { organisation, download: '1' }))}`;
  return { html: layout(shown, { title, main }) };
}

const WITHOUT_FILE = html`<p class="notice">
  As an auditor you see what was verified. You do not get the file of the proof: with it, guesses of the
  contents of the event can be tested. Ask a reviewer for it.
</p>`;

function filePart(eventId: string, text: string, download: string): Html {
  return html`<p class="off-paper"><a class="button" href="${download}">Download the proof</a></p>
    <p>
      Give the proof only to people who may see the event: with it, guesses of its contents can be tested.
    </p>
    <section aria-labelledby="check-title">
      <h2 id="check-title">How to check it elsewhere</h2>
      <p>
        The proof, the body of the event and the key of the log are enough: neither the log nor this viewer is
        needed. Take the verifier key from the operator of the log by another way than this page. The operator
        gets the body with the first command. For an erased event, leave <code>--event body.json</code> out.
      </p>
      ${checkOf(eventId).map(command)}
    </section>
    <section aria-labelledby="text-title">
      <h2 id="text-title">The text of the proof</h2>
      ${block(text, 'code')}
    </section>`;
}

/** The file of the proof has the name under which a browser saves it. */
const checkOf = (eventId: string): string[] => [
  `collector events --event ${eventId} | jq -j .body > body.json`,
  `collector check-proof ${eventId}.tlog-proof --event body.json --key log.vkey`,
];

const command = (text: string): Html =>
  html`<pre class="command" tabindex="0" aria-label="Command"><code>${text}</code></pre>`;
