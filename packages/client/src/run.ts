/** Runs: the interface through which an application captures events. Every call returns immediately. */
import { performance } from 'node:perf_hooks';
import type { EventKind, EventOf, ModelInstance, Profile } from '@clinical-events/protocol';
import type { Capture, Captured } from './capture.js';
import { type EventDetails, EventInvalid } from './event.js';
import { isJsonObject, jsonForm } from './json-value.js';
import { unknownName } from './hostile-values.js';
import type { SampledRun } from './sampling.js';

/** T without the field N, which the client sets. Unlike Omit it preserves the other names. */
type Without<T, N extends string> = {
  [K in keyof T as string extends K ? K : K extends N ? never : K]: T[K];
};

/** Details with content that is stored separately; the URI in the event is `sha256:` and its hash. */
export interface WithContent extends EventDetails {
  readonly content: string | Uint8Array;
}

interface Starts {
  minimum: {
    readonly model?: EventOf<'inference-start'>['model_instance'];
    readonly user?: EventOf<'inference-start'>['user_identity'];
    readonly target?: EventOf<'inference-start'>['target_identity'];
    readonly inputs?: EventOf<'inference-start'>['inputs'];
  };
  full: {
    readonly model: EventOf<'inference-start', 'full'>['model_instance'];
    readonly user: EventOf<'inference-start', 'full'>['user_identity'];
    readonly target: EventOf<'inference-start', 'full'>['target_identity'];
    readonly inputs: EventOf<'inference-start', 'full'>['inputs'];
  };
}

/** The payload of an inference-start under shorter names, such as `model` for `model_instance`. */
export type RunStart<P extends Profile = 'minimum'> = Starts[P];

export interface RunDetails extends EventDetails {
  /** Id of the run, a UUID; default the event_id of its start. */
  readonly runId?: string | undefined;
  /** Stored separately; `inputs.input_uri` refers to it. */
  readonly content?: string | Uint8Array | undefined;
}

type Artifact<P extends Profile> = EventOf<'internal-artifact', P>['artifact'];
type Output<P extends Profile> = EventOf<'human-output', P>['output'];
type Outcome<P extends Profile> = EventOf<'outcome', P>['outcome'];
type Feedback<P extends Profile> = EventOf<'user-feedback', P>['feedback'];

/** A run by its id, usable at any time and in any process. */
export class RunHandle<P extends Profile = 'minimum'> {
  readonly id: string;
  protected readonly capture: Capture;

  /**
   * @internal See `Client.run`.
   * @param id undefined becomes null, which is refused; JSON would omit it.
   */
  constructor(capture: Capture, id: unknown) {
    this.capture = capture;
    this.id = (id ?? null) as string;
  }

  /** An intermediate result of the model: a tool call, a trace, retrieved text. */
  artifact(artifact: Artifact<P>, details?: EventDetails): Captured;
  artifact(artifact: Without<Artifact<P>, 'artifact_uri'>, details: WithContent): Captured;
  artifact(artifact: object, details: EventDetails | WithContent = {}): Captured {
    return this.capturing('internal-artifact', details, (uri) => ({
      artifact: withUri(artifact, 'artifact_uri', uri),
    }));
  }

  /** Content was shown to a person. */
  output(output: Output<P>, details?: EventDetails): Captured;
  output(output: Without<Output<P>, 'output_uri'>, details: WithContent): Captured;
  output(output: object, details: EventDetails | WithContent = {}): Captured {
    return this.capturing('human-output', details, (uri) => ({
      output: withUri(output, 'output_uri', uri),
    }));
  }

  /** A later event that bears on the run. Content becomes its `evidence_uri`. */
  outcome(outcome: Outcome<P>, details: EventDetails | WithContent = {}): Captured {
    return this.capturing('outcome', details, (uri) => ({
      outcome: withUri(outcome, 'evidence_uri', uri),
    }));
  }

  /** The opinion of a user on the run. */
  feedback(feedback: Feedback<P>, details: EventDetails = {}): Captured {
    return this.capturing('user-feedback', details, () => ({ feedback }));
  }

  /** Overridden by `Run`. */
  protected get known(): { model: ModelInstance; sampled: SampledRun | undefined } {
    const sampled = this.capture.sampler?.runInWindow(this.id);
    return { model: sampled?.model ?? {}, sampled };
  }

  protected capturing(
    kind: EventKind,
    details: EventDetails | WithContent,
    payload: (contentUri: string | undefined) => Readonly<Record<string, unknown>>,
  ): Captured {
    const { said, fault } = readDetails(kind, details);
    const { content } = said;
    const latencyMs = this.latencyOf(kind, said);
    const { model, sampled } = this.known;
    return this.capture.capture({
      ...{ kind, eventId: this.capture.maker.newId(), runId: this.id, model, sampled, fault },
      details: latencyMs === said.latencyMs ? said : { ...said, latencyMs },
      content,
      payload,
    });
  }

  /** Overridden by `Run`. */
  protected latencyOf(_kind: EventKind, { latencyMs }: AllDetails): number | undefined {
    return latencyMs;
  }
}

/** A run that began in this process. */
export class Run<P extends Profile = 'minimum'> extends RunHandle<P> {
  /** Id of the event that started the run. */
  readonly startEventId: string;
  /** Capture of that event. */
  readonly started: Captured;
  readonly #known: { model: ModelInstance; sampled: SampledRun | undefined };
  /** Undefined if the application gave a timestamp. */
  readonly #startedAt: number | undefined;

  /** @internal See `Client.startRun`. */
  constructor(capture: Capture, start: RunStart<P>, details: RunDetails, outer?: Run<P>) {
    const startEventId = capture.maker.newId();
    const { said, fault } = readDetails('inference-start', details);
    const { runId = startEventId, content } = said;
    super(capture, runId);
    const { named, payload, fault: unread } = readStart(start);
    this.startEventId = startEventId;
    this.#startedAt = said.timestamp === undefined ? performance.now() : undefined;
    const wrong = unread ?? fault;
    this.#known = {
      model: named,
      sampled: wrong ? undefined : capture.sampler?.begin(runId, named, outer && outer.#known.sampled),
    };
    this.started = capture.capture({
      ...{ kind: 'inference-start', eventId: startEventId, runId, content, fault: wrong, ...this.#known },
      details: { ...said, parentEventId: said.parentEventId ?? outer?.startEventId },
      payload: (uri) => ({ ...payload, inputs: withUri(payload['inputs'], 'input_uri', uri) }),
    });
  }

  /** Begins a nested run, for example of another model. Its parent is the start of this run. */
  startRun(start: RunStart<P>, details: RunDetails = {}): Run<P> {
    return new Run<P>(this.capture, start, details, this);
  }

  protected override get known(): { model: ModelInstance; sampled: SampledRun | undefined } {
    return this.#known;
  }

  protected override latencyOf(kind: EventKind, { latencyMs, timestamp }: AllDetails): number | undefined {
    const startedAt = this.#startedAt;
    const measured = kind === 'human-output' && startedAt !== undefined && timestamp === undefined;
    return latencyMs ?? (measured ? performance.now() - startedAt : undefined);
  }
}

interface ReadStart {
  /** A copy for sampling. */
  readonly named: ModelInstance;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly fault: EventInvalid | undefined;
}

const START_NAMES: readonly (keyof RunStart)[] = ['model', 'user', 'target', 'inputs'];

function readStart(start: unknown): ReadStart {
  try {
    const given = fieldsOf(start) as RunStart;
    const { model, user, target, inputs } = given;
    return {
      named: isFields(model) ? { ...model } : {},
      payload: { model_instance: model, user_identity: user, target_identity: target, inputs },
      fault: slip('the start of a run', given, START_NAMES),
    };
  } catch {
    return { named: {}, payload: {}, fault: unreadable('the start of a run') };
  }
}

/*
 * The caller's objects are read once, because their getters may throw or return different values. An error
 * becomes a fault, with which the event is refused.
 */

export interface AllDetails extends EventDetails {
  readonly runId?: string | undefined;
  readonly content?: unknown;
}

const OF_EVENT = ['parentEventId', 'timestamp', 'latencyMs', 'metadata', 'more'];
const WITH_CONTENT = [...OF_EVENT, 'content'];

/** Names of the details by kind. */
const DETAIL_NAMES: Readonly<Record<EventKind, readonly string[]>> = {
  'inference-start': [...WITH_CONTENT, 'runId'],
  'internal-artifact': WITH_CONTENT,
  'human-output': WITH_CONTENT,
  outcome: WITH_CONTENT,
  'user-feedback': OF_EVENT,
};

function readDetails(
  kind: EventKind,
  details: unknown,
): { said: AllDetails; fault: EventInvalid | undefined } {
  try {
    const given = fieldsOf(details) as AllDetails;
    const { parentEventId, timestamp, latencyMs, metadata, more, runId, content } = given;
    return {
      said: { parentEventId, timestamp, latencyMs, metadata, more, runId, content },
      fault: slip(`the details of ${kind}`, given, DETAIL_NAMES[kind]),
    };
  } catch {
    return { said: {}, fault: unreadable('the details of the event') };
  }
}

/** The fault for an unknown name. */
function slip(what: string, fields: object, known: readonly string[]): EventInvalid | undefined {
  const sentence = unknownName(what, fields, known);
  return sentence === undefined ? undefined : new EventInvalid('unknown_name', sentence);
}

/** The thrown error is not reported, because it may contain values. */
function unreadable(what: string): EventInvalid {
  return new EventInvalid('not_json', `${what} is not an object that can be read`);
}

/** @throws TypeError for a value without fields. */
function fieldsOf(value: unknown): object {
  if (!isFields(value)) throw new TypeError('not an object');
  return value;
}

/** Adds the URI of the content. Invalid values are returned unchanged, and refused later. */
function withUri(given: unknown, name: string, uri: string | undefined): unknown {
  if (uri === undefined) return given;
  const fields = jsonForm('', given);
  return fields === undefined || isFields(fields) ? { ...fields, [name]: uri } : given;
}

function isFields(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && isJsonObject(value);
}
