/** The words of the pages: roles, kinds of events, times, and where a link leads. */
import type { EventKind } from '@clinical-events/protocol';
import { type Html, html, type Inner } from '@clinical-events/report/html';
import { dateText } from '@clinical-events/report/wording';
import type { Role } from '../contract.js';

export const ROLE_TEXT: Readonly<Record<Role, { readonly name: string; readonly sees: string }>> = {
  reviewer: { name: 'Reviewer', sees: 'lists of runs, runs with their contents, proofs and reports' },
  clinician: { name: 'Clinician', sees: 'the runs in which you called the model, with their contents' },
  auditor: { name: 'Auditor', sees: 'lists, times, completeness, proofs and reports, without contents' },
  'break-glass': { name: 'Break-glass', sees: 'everything, for a short time, after you state a reason' },
};

export const KIND_TEXT: Readonly<Record<EventKind, string>> = {
  'inference-start': 'The model was called',
  'internal-artifact': 'A step of the model',
  'human-output': 'Shown to a person',
  outcome: 'Outcome',
  'user-feedback': 'Feedback',
};

/** @returns `23 November 2026, 14:02:11.250 UTC`; the text itself if it is not a time that a clock has. */
export function timeText(time: string | number): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return String(time);
  const text = at.toISOString();
  const clock = text.slice(text.indexOf('T') + 1, -1).replace(/\.000$/, '');
  return `${dateText(text)}, ${clock} UTC`;
}

/** A time for people, and for programs. */
export function timeHtml(time: string | number): Html {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return html`${String(time)}`;
  return html`<time datetime="${at.toISOString()}">${timeText(time)}</time>`;
}

/** A time without its fraction of a second, for a sentence. */
export function secondHtml(time: string | number): Html {
  const at = new Date(time).getTime();
  return timeHtml(Number.isNaN(at) ? time : Math.floor(at / 1000) * 1000);
}

/** `2026-11-23 14:02`, as `collector runs` has it. */
export function minuteText(time: number): string {
  return new Date(time).toISOString().slice(0, -':00.000Z'.length).replace('T', ' ');
}

/** A sentence begins with a capital letter. */
export function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Members in the order given, without the empty ones. */
export function address(path: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const text = new URLSearchParams(
    Object.entries(query).filter((entry): entry is [string, string] => (entry[1] ?? '') !== ''),
  ).toString();
  return text === '' ? path : `${path}?${text}`;
}

export function runAddress(role: Role, recordId: string, organisation: string, from = 0): string {
  const query = { organisation, from: from === 0 ? undefined : String(from) };
  return address(`/${role}/runs/${encodeURIComponent(recordId)}`, query);
}

export function proofAddress(role: Role, eventId: string, organisation: string): string {
  return address(`/${role}/proof/${encodeURIComponent(eventId)}`, { organisation });
}

/** Names and values. */
export function facts(rows: readonly (readonly [name: Inner, value: Inner])[]): Html {
  return html`<dl class="facts">
    ${rows.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}
