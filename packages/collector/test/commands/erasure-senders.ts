/** Runs as senders may write them, at random: about several persons, nested, in circles, with ids in every spelling. */
import type { EventKind } from '@clinical-events/protocol';
import type { Random } from '../../../../test/property-runs.js';
import { sampleEvent } from '../running/sample-events.js';
import { runIdOf, type Sent } from './erasure-judge.js';

export const ORGANISATIONS = ['icu', 'ed'];
/** One person a line. The gateway is the caller for many. */
export const PATIENTS = [
  ['patient-4711', 'MRN 47/11'],
  ['Jürg Weiß'],
  ['p1'],
  ['p10'],
  ['60417'],
  ['Ωmega/ward 7', 'omega_7'],
];
export const CALLERS = ['gateway', 'clinician-17', 'clinician-18'];
export const MODELS = ['triage', 'sepsis'];

/** As a sender may write it in JSON. */
function spelt(random: Random, value: object): string {
  const text = JSON.stringify(value);
  const escape = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  switch (random.below(6)) {
    case 0:
      return text.replaceAll(/[^\x20-\x7e]/g, escape);
    case 1:
      return text.replaceAll(/(?<!\\)[a-z](?=[^"]*"[,}\]])/g, (letter) =>
        random.chance(4) ? escape(letter) : letter,
      );
    case 2:
      return text.replaceAll('/', '\\/');
    case 3:
      return JSON.stringify(value, undefined, 2);
    default:
      return text;
  }
}

/** A member of a payload that contains an id, in any spelling. */
function mention(random: Random, id: string): object {
  const wide = (text: string) =>
    text.replaceAll(/[!-~]/g, (character) => String.fromCharCode(character.charCodeAt(0) + 0xfee0));
  const ways = [
    id,
    id.toUpperCase(),
    id.toLowerCase(),
    wide(id),
    id.normalize('NFD'),
    id.replaceAll(' ', '\u00a0\n '),
  ];
  const way = random.of(ways);
  return random.of<object>([
    { note: `seen with (${way}) today` },
    { note: way },
    { [way]: true },
    { list: [1, [{ deep: [`x ${way}. y`] }]] },
    ...(/^\d+$/.test(id) ? [{ number: Number(id) }] : []),
  ]);
}

/** A member without an id that a search finds. */
function nearMiss(random: Random, id: string): object {
  return random.of<object>([
    { note: `${id}x` },
    { note: `a-${id}` },
    { note: `${id}_2` },
    { first: id.slice(0, 1), rest: id.slice(1) },
    { note: Buffer.from(`is ${id}`).toString('base64') },
  ]);
}

export const OTHER_KINDS: readonly EventKind[] = [
  'internal-artifact',
  'human-output',
  'outcome',
  'user-feedback',
];

/** One model for all starts of a run: which of several decides is not judged here. */
function modelOf(run: string): object {
  return { model_instance: { model_id: MODELS[Number.parseInt(run.slice(-1), 16) % 2], model_version: '1' } };
}

/** Makes the events of a batch, all at random. */
export class Sender {
  /** The possible parents of later events. */
  readonly #known: Sent[] = [];
  readonly #made: Sent[] = [];

  constructor(
    private readonly random: Random,
    private readonly phase: number,
    sent: Iterable<Sent>,
  ) {
    this.#known.push(...sent);
  }

  /** All events, in any order: a start may come after its events. */
  get batch(): Sent[] {
    const { random } = this;
    return this.#made
      .map((event) => ({ event, at: random.below(1 << 20) }))
      .sort((a, b) => a.at - b.at)
      .map(({ event }) => event);
  }

  #parent(organisation: string): object {
    const { random } = this;
    const there = [...this.#made, ...this.#known].filter((each) => each.organisation === organisation);
    if (there.length === 0 || random.chance(10)) return { parent_event_id: random.uuid() };
    const event = random.of(there);
    // A run has the id of the event that opens it, which may never come.
    return { parent_event_id: (random.chance(3) ? runIdOf(event) : undefined) ?? event.id };
  }

  event(organisation: string, kind: EventKind, more: object, id = this.random.uuid()): Sent {
    const { random } = this;
    const person = random.of(random.of(PATIENTS));
    const isMention = random.chance(8);
    const text = isMention ? mention(random, person) : random.chance(8) ? nearMiss(random, person) : {};
    const base = {
      ...sampleEvent(kind),
      inputs: { prompt: 'What next?' },
      user_identity: undefined,
      target_identity: undefined,
    };
    const body = spelt(random, { ...base, ...text, ...more, event_id: id });
    const event = { organisation, id, kind, body, mentions: isMention ? [person] : [], phase: this.phase };
    this.#made.push(event);
    return event;
  }

  start(
    organisation: string,
    target: string | undefined,
    caller: string | undefined,
    more: object = {},
    id?: string,
  ): Sent {
    return this.event(
      organisation,
      'inference-start',
      {
        ...(target !== undefined && { target_identity: { target_id: target, target_type: 'patient' } }),
        ...(caller !== undefined && { user_identity: { caller_id: caller, caller_type: 'clinician' } }),
        ...more,
      },
      id,
    );
  }

  /** A run with its events; sometimes without a start, with several, nested, or with the ids of one of another organisation. */
  run(): void {
    const { random } = this;
    const organisation = random.of(ORGANISATIONS);
    const patient = random.of(PATIENTS);
    const twin = random.chance(15)
      ? this.#known.find(
          (each) =>
            runIdOf(each) === each.id &&
            each.organisation !== organisation &&
            !this.#isThere(organisation, each.id),
        )
      : undefined;
    const id = twin?.id ?? random.uuid();
    const own: Sent[] = [];
    const starts = random.chance(12) ? 0 : random.chance(5) ? 2 + random.below(2) : 1;
    for (let i = 0; i < starts; i++) {
      const target = random.chance(5)
        ? undefined
        : random.of(i > 0 && random.chance(4) ? random.of(PATIENTS) : patient);
      const caller = random.chance(6)
        ? undefined
        : random.chance(4)
          ? random.of(patient)
          : random.of(CALLERS);
      const nested = random.chance(5) ? this.#parent(organisation) : {};
      const isFirst = i === 0;
      own.push(
        this.start(
          organisation,
          target,
          caller,
          { ...modelOf(id), ...nested, ...(!isFirst && { run_id: id }) },
          isFirst ? id : undefined,
        ),
      );
    }
    for (let i = random.below(4); i > 0; i--) {
      const hung = own.length > 0 && random.chance(3);
      own.push(
        this.event(
          organisation,
          random.of(OTHER_KINDS),
          hung
            ? { parent_event_id: random.of(own).id }
            : { run_id: id, ...(random.chance(5) && this.#parent(organisation)) },
        ),
      );
    }
  }

  /** Events without a run: their parent is an event of a run, another of them, one in a circle, or missing. */
  loose(): void {
    const { random } = this;
    const organisation = random.of(ORGANISATIONS);
    const kind = random.of(OTHER_KINDS);
    if (random.chance(4)) {
      const ids = Array.from({ length: 2 + random.below(2) }, () => random.uuid());
      ids.forEach((id, i) =>
        this.event(organisation, kind, { parent_event_id: ids[(i + 1) % ids.length] }, id),
      );
    } else this.event(organisation, kind, random.chance(4) ? {} : this.#parent(organisation));
  }

  /** For an existing run. */
  late(event: Sent): void {
    const { random } = this;
    const { organisation } = event;
    const run = runIdOf(event);
    const hangs = random.chance(3) || run === undefined;
    const more = hangs ? { parent_event_id: event.id } : { run_id: run };
    if (run !== undefined && random.chance(3)) {
      const target = random.chance(3) ? undefined : random.of(random.of(PATIENTS));
      const nested = random.chance(3) ? this.#parent(organisation) : {};
      this.start(organisation, target, random.of([...CALLERS, ...random.of(PATIENTS)]), {
        run_id: run,
        ...modelOf(run),
        ...nested,
      });
    } else this.event(organisation, random.of(OTHER_KINDS), more);
  }

  #isThere(organisation: string, id: string): boolean {
    return [...this.#known, ...this.#made].some(
      (each) => each.organisation === organisation && each.id === id,
    );
  }
}
