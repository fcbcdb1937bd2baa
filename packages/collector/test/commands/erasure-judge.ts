/** The expected plan and result of an erasure, decided from the events that were sent and the acts that were done. */

export interface Sent {
  readonly organisation: string;
  readonly id: string;
  readonly kind: string;
  readonly body: string;
  /** Ids that it contains in some spelling. */
  readonly mentions: readonly string[];
  /** Grows with every batch and act. */
  readonly phase: number;
}

export interface Asked {
  readonly subjects?: readonly string[];
  readonly run?: string;
  readonly event?: string;
  readonly late?: string;
  readonly organisation?: string | undefined;
  readonly mentions?: boolean;
}

export interface Hold {
  readonly name: string;
  readonly runs: readonly string[];
  readonly subjects: readonly string[];
  readonly organisations: readonly string[];
}

export interface Floor {
  readonly organisation?: string;
  readonly kind?: string;
  readonly model?: string;
}

/** Keys of events are their organisation and id. */
export interface Decided {
  readonly phase: number;
  /** The organisations that have the requested subject, run or event. */
  readonly organisations: readonly string[];
  readonly marked: ReadonlySet<string>;
  readonly listed: ReadonlySet<string>;
  readonly held: ReadonlySet<string>;
  readonly floored: ReadonlySet<string>;
  /** By action. */
  readonly late: ReadonlyMap<string, number>;
  readonly holds: ReadonlySet<Hold>;
  readonly floors: readonly Floor[];
  /** By event. */
  readonly run: ReadonlyMap<string, Run>;
}

/** @param code of the command; `mayRefuse`: 10 is allowed too. Events are erased only with 0 and 7. */
export interface Verdict {
  readonly code: 0 | 6 | 7 | 8 | 10;
  readonly mayRefuse: boolean;
  readonly erases: ReadonlySet<string>;
}

interface Start extends Sent {
  readonly target?: string | undefined;
  readonly caller?: string | undefined;
  readonly model?: string | undefined;
}

interface Run {
  readonly organisation: string;
  readonly id: string;
  readonly isRun: boolean;
  readonly events: Sent[];
  readonly starts: Start[];
  readonly outer: Set<Run>;
}

interface Fields {
  readonly run_id?: string;
  readonly parent_event_id?: string;
  readonly target_identity?: { readonly target_id?: string };
  readonly user_identity?: { readonly caller_id?: string };
  readonly model_instance?: { readonly model_id?: string };
}

export const keyOf = ({ organisation, id }: { organisation: string; id: string }): string =>
  `${organisation} ${id}`;
/** The run that an event names or opens. */
export const runIdOf = (event: Sent): string | undefined =>
  fieldsOf(event).run_id ?? (event.kind === 'inference-start' ? event.id : undefined);
/** The event in which it is nested or of which it is a part; an event that names its run belongs to that run only. */
const hangsOn = (event: Sent): string =>
  (event.kind === 'inference-start' || runIdOf(event) === undefined ? fieldsOf(event).parent_event_id : '') ??
  '';
const fieldsOf = ({ body }: Sent) => JSON.parse(body) as Fields;

export class Judge {
  readonly sent = new Map<string, Sent>();
  /** By which action an event was erased. */
  readonly erased = new Map<string, string>();
  readonly erasures: { readonly action: string; readonly phase: number }[] = [];
  readonly #holds = new Map<Hold, { events: Set<string>; runs: Set<string> }>();
  floors: readonly Floor[] = [];

  get holds(): readonly Hold[] {
    return [...this.#holds.keys()];
  }

  /** It also holds the events that it covers now: no later start releases any of them. */
  hold(hold: Hold): void {
    this.#holds.set(hold, { events: new Set(), runs: new Set() });
    const met = [...this.#runs()].filter(([, run]) => this.#isHeld(run, '', hold));
    const runs = new Set(met.map(([, run]) => run.id));
    this.#holds.set(hold, {
      events: new Set(met.map(([key]) => key)),
      runs: new Set(hold.organisations.length > 0 ? [] : runs),
    });
  }

  release(hold: Hold): void {
    this.#holds.delete(hold);
  }

  erase(action: string, phase: number, keys: Iterable<string>): void {
    this.erasures.push({ action, phase });
    for (const key of keys) this.erased.set(key, action);
  }

  plan(asked: Asked, phase: number): Decided {
    const run = this.#runs();
    const ofPlace = [...new Set(run.values())].filter(
      ({ organisation }) => asked.organisation === undefined || organisation === asked.organisation,
    );
    const late = new Map<string, number>();
    if (asked.late === undefined)
      for (const { action, events } of ofPlace.flatMap((each) => this.#lateOf(each)))
        late.set(action, (late.get(action) ?? 0) + events);
    const marks = new Map<string, boolean>();
    const add = (events: readonly Sent[], mark: boolean) => {
      for (const event of events) if (!marks.has(keyOf(event))) marks.set(keyOf(event), mark);
    };
    const seeds = ofPlace.filter((each) => this.#isAsked(each, asked));
    for (const each of seeds)
      if (asked.event === undefined) add(each.events, this.#isMarked(each, asked));
      else
        add(
          each.events.filter(({ id }) => id === asked.event),
          true,
        );
    const nested = new Set(seeds);
    for (const outer of nested) for (const each of run.values()) if (each.outer.has(outer)) nested.add(each);
    for (const each of nested) if (!seeds.includes(each)) add(each.events, false);
    const isMention = ({ mentions }: Sent) => mentions.some((id) => asked.subjects?.includes(id));
    if (asked.mentions) for (const each of ofPlace) add(each.events.filter(isMention), false);
    const listed = [...marks].filter(([key]) => !this.erased.has(key));
    const held = listed.filter(([key]) => this.holds.some((hold) => this.#isHeld(run.get(key), key, hold)));
    const heldKeys = new Set(held.map(([key]) => key));
    return {
      ...{ phase, late, run, holds: new Set(this.holds), floors: this.floors, held: heldKeys },
      organisations: [...new Set(seeds.map(({ organisation }) => organisation))],
      marked: new Set(listed.filter(([key, mark]) => mark && !heldKeys.has(key)).map(([key]) => key)),
      listed: new Set(listed.map(([key]) => key)),
      floored: new Set(listed.map(([key]) => key).filter((key) => this.#isFloored(run.get(key), key))),
    };
  }

  /** @param marks as a person has set them. */
  apply(decided: Decided, marks: ReadonlySet<string>, overrides: boolean): Verdict {
    const left = [...marks].filter((key) => !this.erased.has(key));
    const runs = this.#runs();
    const came = new Set(
      left
        .map((key) => runs.get(key))
        .filter((run) => run?.starts.some(({ phase }) => phase > decided.phase)),
    );
    const isOther = (run: Run) => {
      const before = decided.run.get(left.find((key) => runs.get(key) === run) ?? '');
      const known = new Set(before === undefined ? [] : this.#about(before));
      return this.#about(run).some((id) => !known.has(id));
    };
    const isHeld = (key: string) => this.holds.some((hold) => this.#isHeld(runs.get(key), key, hold));
    const mustRefuse =
      this.holds.some((hold) => !decided.holds.has(hold)) ||
      this.floors !== decided.floors ||
      left.some((key) => isHeld(key) || runs.get(key)?.id !== decided.run.get(key)?.id) ||
      [...came].some((run) => run !== undefined && isOther(run));
    const erases = new Set(left.filter((key) => overrides || !decided.floored.has(key)));
    const code =
      left.length === 0 ? 6 : mustRefuse ? 10 : erases.size === 0 ? 8 : erases.size < left.length ? 7 : 0;
    return { code, mayRefuse: came.size > 0 || left.some((key) => decided.held.has(key)), erases };
  }

  /** The run of each event. An event without a run belongs to the record of its parent; a circle has its smallest id. */
  #runs(): Map<string, Run> {
    const [byName, byEvent] = [new Map<string, Run>(), new Map<string, Run>()];
    for (const event of this.sent.values()) {
      const { organisation } = event;
      const path: Sent[] = [];
      let [at, id, isRun]: [Sent | undefined, string, boolean] = [event, event.id, false];
      for (; at !== undefined; at = this.sent.get(`${organisation} ${fieldsOf(at).parent_event_id ?? ''}`)) {
        const own = runIdOf(at);
        isRun = own !== undefined;
        id = own ?? at.id;
        const circle = path.indexOf(at);
        if (circle >= 0)
          id =
            path
              .slice(circle)
              .map((each) => each.id)
              .sort()[0] ?? '';
        if (isRun || circle >= 0) break;
        path.push(at);
      }
      const name = `${organisation} ${id}`;
      const run = byName.get(name) ?? { organisation, id, isRun, events: [], starts: [], outer: new Set() };
      byName.set(name, run);
      byEvent.set(keyOf(event), run);
      run.events.push(event);
      const { target_identity, user_identity, model_instance } = fieldsOf(event);
      if (event.kind === 'inference-start')
        run.starts.push({
          ...{ ...event, target: target_identity?.target_id, caller: user_identity?.caller_id },
          model: model_instance?.model_id,
        });
    }
    for (const run of byName.values())
      for (const start of run.starts) {
        const outer = byEvent.get(`${run.organisation} ${fieldsOf(start).parent_event_id ?? ''}`);
        if (outer !== undefined && outer !== run) run.outer.add(outer);
      }
    return byEvent;
  }

  #read({ starts }: Run): Start[] {
    return starts.filter((start) => !this.erased.has(keyOf(start)));
  }

  #named(run: Run, as: 'target' | 'caller'): string[] {
    return this.#read(run).flatMap((start) => start[as] ?? []);
  }

  #about(run: Run): string[] {
    const targets = this.#named(run, 'target');
    return targets.length > 0 ? targets : this.#named(run, 'caller');
  }

  #isAsked(run: Run, { subjects, run: id, event, late }: Asked): boolean {
    if (event !== undefined) return run.events.some((each) => each.id === event);
    if (late !== undefined) return this.#lateOf(run, late).length > 0;
    if (!run.isRun) return false;
    if (id !== undefined) return run.id === id;
    return [...this.#named(run, 'target'), ...this.#named(run, 'caller')].some((each) =>
      subjects?.includes(each),
    );
  }

  #isMarked(run: Run, { subjects, late }: Asked): boolean {
    if (late !== undefined) return this.#named(run, 'target').length === 0;
    if (subjects === undefined) return true;
    return (
      this.#read(run).length === run.starts.length && this.#about(run).every((id) => subjects.includes(id))
    );
  }

  /** The events of a run after an erasure, if no older one is left: after the given action, or the last. */
  #lateOf({ events }: Run, asked?: string): { action: string; events: number }[] {
    const last = this.erasures.findLast(
      ({ action }) =>
        (asked ?? action) === action && events.some((event) => this.erased.get(keyOf(event)) === action),
    );
    const left = events.filter((event) => !this.erased.has(keyOf(event)));
    if (last === undefined || left.length === 0 || left.some(({ phase }) => phase < last.phase)) return [];
    return [{ action: last.action, events: left.length }];
  }

  /** A hold on a run or a person covers the runs nested in it. */
  #isHeld(run: Run | undefined, key: string, hold: Hold): boolean {
    const met = this.#holds.get(hold);
    if (run === undefined || met?.events.has(key)) return run !== undefined;
    const isOfHold = (id: string) => hold.runs.includes(id) || met?.runs.has(id) === true;
    const chain = new Set([run]);
    for (const each of chain) for (const outer of each.outer) chain.add(outer);
    return (
      hold.organisations.includes(run.organisation) ||
      [...chain].some(({ id, events }) => isOfHold(id) || events.some((event) => isOfHold(hangsOn(event)))) ||
      [...chain].some((each) => this.#persons(each).some((id) => hold.subjects.includes(id)))
    );
  }

  #persons(run: Run): string[] {
    return [...this.#named(run, 'target'), ...this.#named(run, 'caller')];
  }

  #isFloored(run: Run | undefined, key: string): boolean {
    const kind = this.sent.get(key)?.kind;
    const models = run === undefined ? [] : this.#read(run).map(({ model }) => model);
    return this.floors.some(
      (floor) =>
        (floor.organisation === undefined || floor.organisation === run?.organisation) &&
        (floor.kind === undefined || floor.kind === kind) &&
        (floor.model === undefined || models.includes(floor.model)),
    );
  }
}
