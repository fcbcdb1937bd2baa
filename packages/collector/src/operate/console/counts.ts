/** Answers since the start by kind and reason, and the completeness of the runs of 30 days. */
import { count, counted, day, percent } from './format.js';
import { bar, card, type Child, facts, markup, table, type View } from './markup.js';
import { cellsOf } from './states.js';

type Counts = readonly (readonly [string, number])[];

/** Whether no request was answered since the start. */
export function isUnasked({ state: { totals, otlp } }: View): boolean {
  const ignored = otlp?.items.flatMap((items) => Object.entries(items.ignored)) ?? [];
  return (
    total(Object.entries(totals.accepted)) + total(ignored) === 0 && Object.keys(totals.refused).length === 0
  );
}

/** Replaces the two cards below. */
export function unasked(): Child {
  const text = 'No requests. This card counts events by kind, and refusals by error code.';
  return card('accepted', 'Accepted and refused', 'since the start', empty(text));
}

export function acceptedByKind({ state: { totals } }: View): Child {
  const counts = Object.entries(totals.accepted);
  return card(
    'accepted',
    'Accepted by kind',
    `${count(total(counts))} since the start`,
    shares('Events accepted since the start, by kind', 'Kind', counts),
    totals.repeats > 0 && note(`${counted(totals.repeats, 'repeat')} of stored events included.`),
  );
}

export function refusedByReason({ state: { totals } }: View): Child {
  const counts = Object.entries(totals.refused).sort(([, a], [, b]) => b - a);
  const all = total(counts);
  return card(
    'refused',
    'Refused by reason',
    all === 0 ? 'since the start' : `${count(all)} since the start`,
    counts.length === 0
      ? empty('No refusals. This card counts them by error code.')
      : shares('Requests refused since the start, by error code', 'Error code', counts),
  );
}

/** The results of spans and log records; empty when OTLP is off. */
export function openTelemetry({ state: { otlp } }: View): Child {
  if (otlp === null) return false;
  const counts = new Map<string, number>();
  const add = (name: string, more: number) => counts.set(name, (counts.get(name) ?? 0) + more);
  for (const { signal, stored, ignored, rejected } of otlp.items) {
    add(signal === 'traces' ? 'spans stored' : 'log records stored', stored);
    for (const [reason, number] of Object.entries(ignored)) add(`ignored: ${reason}`, number);
    for (const [code, number] of Object.entries(rejected)) add(`rejected: ${code}`, number);
  }
  const lines = [...counts];
  return card(
    'otlp',
    'OpenTelemetry',
    `${count(total(lines))} since the start`,
    shares('Spans and log records since the start', 'Result', lines),
    otlp.shortened > 0 && note(`${counted(otlp.shortened, 'event')} stored without the longest contents.`),
  );
}

/** The catalogue always lags. The page mentions a lag of more events than arrive in this time. */
const BEHIND_SECONDS = 10;

export function runs(view: View): Child {
  const { runs: found, traffic, database } = view.state;
  const title = 'Runs by completeness';
  if (found === null) {
    return card(
      'runs',
      title,
      '',
      empty(
        database === null
          ? 'Counting begins when the ledger is open.'
          : 'Not counted here, because the log is in a database. Run collector runs on its mirror.',
      ),
    );
  }
  const all = found.full + found.minimum + found.incomplete + found.erased;
  if (all === 0 && found.orphan_events === 0) {
    const text =
      `No run has begun since ${day(found.since)}. This card counts runs as full, minimum or incomplete, ` +
      'by their events so far.';
    return card('runs', title, '', empty(text));
  }
  const levels: Counts = [
    ['full', found.full],
    ['minimum', found.minimum],
    ['incomplete', found.incomplete],
    ...(found.erased > 0 ? [['erased', found.erased] as const] : []),
    ['no outcome yet', found.without_outcome],
  ];
  return card(
    'runs',
    title,
    `${count(all)} began since ${day(found.since)}`,
    shares(`Runs that began since ${day(found.since)}, by how complete they are so far`, 'Runs', levels, all),
    facts(cellsOf(view, 'runs')),
    found.events_behind > BEHIND_SECONDS * traffic.accepted_per_second &&
      note(`${counted(found.events_behind, 'event')} not counted yet.`),
  );
}

/** A table of names, numbers and their shares of the total. */
function shares(caption: string, first: string, counts: Counts, all = total(counts)): Child {
  const columns = [
    { name: first },
    { name: 'Count', className: 'number' },
    { name: 'Share', className: 'share' },
  ];
  const row = ([name, number]: readonly [string, number]): Child[] => {
    const part = all === 0 ? 0 : number / all;
    return [markup`<code>${name}</code>`, count(number), [bar(part), markup`<span>${percent(part)}</span>`]];
  };
  return table(caption, columns, counts.map(row));
}

function note(text: string): Child {
  return markup`<p class="more">${text}</p>`;
}

function empty(text: string): Child {
  return markup`<p class="empty">${text}</p>`;
}

function total(counts: Counts): number {
  return counts.reduce((sum, [, number]) => sum + number, 0);
}
