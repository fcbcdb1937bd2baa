/** Anomalies between a sender and the collector, mixed into planned runs at stated rates. */
import { DAY, HOUR, MINUTE, SECOND, type PlannedEvent, type PlannedRun } from './planned-run.js';
import type { Random } from './random.js';

/** The anomalies: how often they happen, to what, and what they are. */
export const ANOMALIES = {
  no_output: { rate: 0.015, of: 'runs', means: 'the output never came' },
  no_start: { rate: 0.01, of: 'runs', means: 'the inference-start never came' },
  clock_wrong: { rate: 0.015, of: 'runs', means: "the model's clock is hours off" },
  clock_set_back: { rate: 0.01, of: 'runs', means: "the model's clock is set back during the run" },
  no_run_id: { rate: 0.03, of: 'events', means: 'names its parent but no run' },
  stray: { rate: 0.04, of: 'feedback', means: 'names no run, and a parent that was never sent' },
  late_outcome: { rate: 0.08, of: 'outcomes', means: 'reported one to six weeks late' },
  own_words: {
    rate: 0.03,
    of: 'outcomes',
    means: "in the sender's own form, valid only under profile minimum",
  },
  unknown_fields: { rate: 0.04, of: 'events', means: 'has fields that the protocol does not name' },
  repeat: { rate: 0.02, of: 'events', means: 'sent again, byte for byte' },
  respelt: { rate: 0.01, of: 'events', means: 'sent again with other key order and white space' },
  conflict: { rate: 0.004, of: 'events', means: 'sent again under the same id with another time' },
} as const satisfies Readonly<
  Record<string, { readonly rate: number; readonly of: string; readonly means: string }>
>;

export type Anomaly = keyof typeof ANOMALIES;

/** `first` is the event itself; the others send it again later. */
type Sending = 'first' | 'repeat' | 'respelt' | 'conflict';

/** One sending of an event, with its anomalies. */
export interface SentEvent {
  readonly run: PlannedRun;
  readonly planned: PlannedEvent;
  /** When it is sent: milliseconds since 1970. */
  readonly at: number;
  readonly sending: Sending;
  /** The anomalies of this sending; {@link SentRun} has the anomalies of the whole run. */
  readonly anomalies: readonly Anomaly[];
  /** The time of the sender's clock: milliseconds since 1970. */
  readonly stampedAt: number;
  readonly namesRun: boolean;
  /** The parent of a stray, which is never sent. */
  readonly strayParent: string | undefined;
  /** Valid only under profile minimum. */
  readonly inOwnWords: boolean;
  /** Fields that the protocol does not name. */
  readonly more: object | undefined;
}

export interface SentRun {
  /** The anomalies of the run as a whole. */
  readonly anomalies: readonly Anomaly[];
  readonly events: readonly SentEvent[];
}

const NONE: readonly Anomaly[] = [];
/** Hours by which a clock is wrong: mostly the hours of another time zone. */
const HOURS_OFF = [-5, -2, -1, 1, 1, 2, 6] as const;
/** Kinds that the model itself sends, with its own clock. */
const BY_MODEL: ReadonlySet<string> = new Set(['inference-start', 'internal-artifact', 'human-output']);

/** @returns the run as it reaches the collector: the same for the same run and source. */
export function withAnomalies(run: PlannedRun, random: Random): SentRun {
  const missing = missingOf(run, random);
  const events = run.events.filter(({ kind }) => kind !== missing?.kind);
  const clock = clockOf(random);
  const sent = new Set(events.map(({ eventId }) => eventId));
  const all: SentEvent[] = [];
  for (const [place, planned] of events.entries()) {
    const setBack = clock.setBack !== 0 && place > events.length / 3;
    const first = firstSending(run, planned, random, {
      clockAhead: BY_MODEL.has(planned.kind) ? clock.ahead - (setBack ? clock.setBack : 0) : 0,
      parentSent: planned.parentEventId !== null && sent.has(planned.parentEventId),
    });
    all.push(first);
    const again = againOf(first, random);
    if (again !== undefined) all.push(again);
  }
  const anomalies = [...(missing === undefined ? NONE : [missing.anomaly]), ...clock.anomalies];
  return { anomalies: anomalies.length === 0 ? NONE : anomalies, events: all };
}

function missingOf(run: PlannedRun, random: Random): { kind: string; anomaly: Anomaly } | undefined {
  const drawn = random.fraction();
  const { no_output: output, no_start: start } = ANOMALIES;
  if (drawn < output.rate) {
    // Some runs have no output.
    const has = run.events.some(({ kind }) => kind === 'human-output');
    return has ? { kind: 'human-output', anomaly: 'no_output' } : undefined;
  }
  return drawn < output.rate + start.rate ? { kind: 'inference-start', anomaly: 'no_start' } : undefined;
}

function clockOf(random: Random): { ahead: number; setBack: number; anomalies: readonly Anomaly[] } {
  const drawn = random.fraction();
  const { clock_wrong: wrong, clock_set_back: back } = ANOMALIES;
  if (drawn < wrong.rate) {
    return { ahead: random.pick(HOURS_OFF) * HOUR, setBack: 0, anomalies: ['clock_wrong'] };
  }
  if (drawn < wrong.rate + back.rate) {
    return { ahead: 0, setBack: random.between(5, 90) * MINUTE, anomalies: ['clock_set_back'] };
  }
  return { ahead: 0, setBack: 0, anomalies: NONE };
}

function firstSending(
  run: PlannedRun,
  planned: PlannedEvent,
  random: Random,
  { clockAhead, parentSent }: { clockAhead: number; parentSent: boolean },
): SentEvent {
  const anomalies: Anomaly[] = [];
  let { at } = planned;
  let strayParent: string | undefined;
  // An inference-start without a run id would begin another run.
  if (planned.kind === 'user-feedback' && random.chance(ANOMALIES.stray.rate)) {
    anomalies.push('stray');
    strayParent = random.uuid();
  } else if (planned.kind !== 'inference-start' && parentSent && random.chance(ANOMALIES.no_run_id.rate)) {
    anomalies.push('no_run_id');
  }
  if (planned.kind === 'outcome') {
    if (random.chance(ANOMALIES.late_outcome.rate)) {
      anomalies.push('late_outcome');
      at += Math.round(random.between(7, 42) * DAY);
    }
    if (random.chance(ANOMALIES.own_words.rate)) anomalies.push('own_words');
  }
  let more: object | undefined;
  if (random.chance(ANOMALIES.unknown_fields.rate)) {
    anomalies.push('unknown_fields');
    more = unknownFields(random);
  }
  return {
    run,
    planned,
    at,
    sending: 'first',
    anomalies: anomalies.length === 0 ? NONE : anomalies,
    stampedAt: at + Math.round(clockAhead),
    namesRun: !anomalies.includes('no_run_id') && strayParent === undefined,
    strayParent,
    inOwnWords: anomalies.includes('own_words'),
    more,
  };
}

/** Fields of the kind that real programs add. */
function unknownFields(random: Random): object {
  switch (random.integer(0, 3)) {
    case 0:
      return { trace_id: random.uuid().replaceAll('-', ''), span_id: random.uuid().slice(-12) };
    case 1:
      return {
        bridge: { name: 'hl7v2-bridge', version: '3.4', message_control_id: random.integer(1e6, 1e7) },
      };
    case 2:
      return { consent: ['care', 'quality-assurance'], retention_class: 'clinical-30y' };
    default:
      return { cost: { currency: 'EUR', amount: random.integer(1, 900) / 1000 }, 'x-ward': 'Süd 3' };
  }
}

/** @returns a second sending of some events. */
function againOf(first: SentEvent, random: Random): SentEvent | undefined {
  const drawn = random.fraction();
  const { repeat, respelt, conflict } = ANOMALIES;
  if (drawn >= repeat.rate + respelt.rate + conflict.rate) return undefined;
  const sending: Sending =
    drawn < repeat.rate ? 'repeat' : drawn < repeat.rate + respelt.rate ? 'respelt' : 'conflict';
  // Most senders retry within seconds; some empty a queue in the evening.
  const wait = random.chance(0.8) ? random.between(1, 40) * SECOND : random.between(0.5, 9) * HOUR;
  return { ...first, at: first.at + Math.round(wait), sending, anomalies: [sending] };
}
