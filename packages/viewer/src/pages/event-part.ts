/** One event of a run: its time, its kind, all that was sent, and where it is in the log. */
import {
  duration,
  endingWords,
  makerOf,
  ratingWords,
} from '@clinical-events/collector/commands/records/timeline';
import { millisecondsOf } from '@clinical-events/collector/records/exports/record-columns';
import type { ClinicalRecord, RecordedEvent } from '@clinical-events/protocol';
import { html, type Html, type Inner, NOTHING } from '@clinical-events/report/html';
import { countText, dateText } from '@clinical-events/report/wording';
import type { Role } from '../contract.js';
import { inline } from './text.js';
import { type Members, membersHtml } from './values.js';
import { facts, KIND_TEXT, proofAddress, timeHtml } from './words.js';

/** A group of members, such as the inputs of a call. */
interface Group {
  readonly name: string;
  readonly members: Members;
}

/** The members of an event, under the sender's names. */
export type Said = ReadonlyMap<string, readonly Group[]>;

export function saidIn(record: ClinicalRecord): Said {
  const said = new Map<string, readonly Group[]>();
  const set = (eventId: string, ...groups: readonly (readonly [string, object | null])[]) =>
    said.set(
      eventId,
      groups
        .map(([name, part]): Group => ({ name, members: Object.entries(part ?? {}) }))
        .filter(({ members }) => members.length > 0),
    );
  const more = 'Further fields of the event';
  for (const { event_id, artifact, extra } of record.artifacts) set(event_id, ['', artifact], [more, extra]);
  for (const { event_id, output, extra } of record.outputs) set(event_id, ['', output], [more, extra]);
  for (const { event_id, outcome, extra } of record.outcomes) set(event_id, ['', outcome], [more, extra]);
  for (const { event_id, feedback, extra } of record.feedback) set(event_id, ['', feedback], [more, extra]);
  const { calls, events } = record.metadata;
  const extras = new Map(events.map(({ event_id, extra }) => [event_id, extra]));
  for (const { event_id, inputs, model, user, target } of calls)
    set(
      event_id,
      ['Inputs', inputs],
      ['Model', model],
      ['Called by', user],
      ['About', target],
      [more, extras.get(event_id) ?? null],
    );
  return said;
}

/** Values that the parts of a run's page share. */
export interface RunView {
  readonly role: Role;
  readonly organisation: string;
  readonly withContents: boolean;
  readonly origin: number | undefined;
  readonly callNumbers: ReadonlyMap<string, number>;
  readonly said: Said;
  /** A link to an event of the run, also on another part of the page. */
  readonly eventLink: (eventId: string) => Html;
}

export function eventPart(event: RecordedEvent, view: RunView): Html {
  const { event_id: id, kind, sequence } = event;
  const groups = view.withContents ? (view.said.get(id) ?? []) : [];
  return html`<li class="event ${kind}" id="event-${sequence}">
    <h3>${KIND_TEXT[kind]} <code>${kind}</code></h3>
    <p class="when">${whenHtml(event, view)}</p>
    ${unreadableText(event)} ${groups.map(groupHtml)} ${origin(event, view)}
  </li>`;
}

function whenHtml(event: RecordedEvent, { origin: first, callNumbers, withContents }: RunView): Inner {
  const { timestamp, received_at: received } = event;
  const call = callNumbers.get(event.event_id);
  const maker = withContents ? makerOf(event) : undefined;
  return [
    timestamp === null ? html`received ${timeHtml(received)}` : timeHtml(millisecondsOf(timestamp)),
    timestamp === null || first === undefined ? '' : offsetText(millisecondsOf(timestamp) - first),
    call === undefined ? '' : ` · call ${call}`,
    maker === undefined ? '' : html` · made by ${inline(maker)}`,
  ];
}

function offsetText(offset: number): string {
  if (offset === 0) return '';
  return ` · ${duration(Math.abs(offset))} ${offset < 0 ? 'before' : 'after'} the start`;
}

/** Why the contents of an event are not shown. */
function unreadableText({ payload, action, erased_at: erasedAt }: RecordedEvent): Html {
  if (payload === undefined) return NOTHING;
  if (payload === 'encrypted')
    return html`<p class="absent">
      The contents of this event are encrypted, and their key cannot be read now.
    </p>`;
  const on = erasedAt === undefined ? '' : ` on ${dateText(erasedAt)}`;
  const by = action === undefined ? '' : html` by action ${inline(action)}`;
  return html`<p class="absent">The contents of this event were erased${on}${by}.</p>`;
}

/** @param name without a name, the group is what the kind of the event says already. */
function groupHtml({ name, members }: Group): Html {
  const shown = members.map(([member, value]) => [member, value] as const);
  const rating = members.find(([member]) => member === 'rating_value')?.[1];
  const words = ratingWords(rating);
  return html`${name === '' ? NOTHING : html`<h4>${name}</h4>`} ${membersHtml(shown)}
  ${words === undefined ? NOTHING : html`<p class="in-words">Rating: ${words}</p>`}`;
}

/** Where the event came from, and where it is in the log. */
function origin(event: RecordedEvent, view: RunView): Html {
  const { event_id: id, sequence, timestamp, received_at: received } = event;
  const { key_id: keyId, door, profile, parent_event_id: parent, joined_by: joinedBy } = event;
  const system = view.withContents ? Object.entries(event.system_metadata ?? {}) : [];
  const rows: [Inner, Inner][] = [
    ['Event id', html`<code>${id}</code>`],
    ['Time as sent', timestamp === null ? 'not readable' : html`<code>${timestamp}</code>`],
    ['Received', timeHtml(received)],
    ['Sent with key', html`<code>${keyId}</code>`],
    ['Arrived by', `${DOOR_TEXT[door]}; checked against profile ${profile}`],
    ['Protocol version', event.protocol_version === null ? 'not readable' : inline(event.protocol_version)],
    ['Expands on', parent === null ? 'no other event' : view.eventLink(parent)],
    ['Belongs to the run by', joinedBy === null ? 'itself' : html`<code>${joinedBy}</code>`],
    ...(system.length === 0 ? [] : [['System', membersHtml(system)] as [Inner, Inner]]),
  ];
  return html`<details class="origin">
    <summary>Event ${countText(sequence)} of the log</summary>
    ${facts(rows)}
    <p class="off-paper">
      <a href="${proofAddress(view.role, id, view.organisation)}"
        >Proof that event ${countText(sequence)} is in the log</a
      >
    </p>
  </details>`;
}

const DOOR_TEXT: Readonly<Record<RecordedEvent['door'], string>> = {
  endpoint: 'the endpoint',
  import: 'an import, according to its sender',
  otlp: 'OpenTelemetry',
};

/** How a call ended, in words. @param withContents whether the name of an error is shown. */
export function endingText(
  { ending, status, error_name: error }: { ending: string; status: unknown; error_name: unknown },
  withContents: boolean,
): Html {
  return inline(endingWords(ending, status, withContents ? error : undefined).join(', '));
}
