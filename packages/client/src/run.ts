/** A run as the application sees it: what happens in it is told here, and every call returns at once. */
import type { EventKind, EventOf, ModelInstance, Profile } from '@clinical-events/protocol';
import type { Capture } from './capture.js';
import type { Captured } from './captured.js';
import { latencySince, type EventDetails } from './event.js';
import {
  fieldsOf,
  isFields,
  readDetails,
  slip,
  unreadable,
  withUri,
  type AllDetails,
} from './run-details.js';
import type { EventInvalid } from './refusals.js';
import type { SampledRun } from './sampling/sampler.js';

/** T without the field N, which the client fills in. Unlike Omit it keeps the other names. */
type Without<T, N extends string> = {
  [K in keyof T as string extends K ? K : K extends N ? never : K]: T[K];
};

/** Content that is stored by itself; the event says `sha256:` and its hash where it would say where it is kept. */
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

/** What an inference-start says, under everyday names: `model` is the event's `model_instance`, and so on. */
export type RunStart<P extends Profile = 'minimum'> = Starts[P];

export interface RunDetails extends EventDetails {
  /** The id of the run, when the application has one already: a UUID. The start's own event_id when not given. */
  readonly runId?: string | undefined;
  /** Stored by itself; `inputs.input_uri` names it. */
  readonly content?: string | Uint8Array | undefined;
}

type Artifact<P extends Profile> = EventOf<'internal-artifact', P>['artifact'];
type Output<P extends Profile> = EventOf<'human-output', P>['output'];
type Outcome<P extends Profile> = EventOf<'outcome', P>['outcome'];
type Feedback<P extends Profile> = EventOf<'user-feedback', P>['feedback'];

/** A run of which nothing is known but its id. Good on any day and in any process. */
export class RunHandle<P extends Profile = 'minimum'> {
  readonly id: string;
  protected readonly capture: Capture;

  /** @internal Runs are had from a client. */
  constructor(capture: Capture, id: string) {
    this.capture = capture;
    this.id = id;
  }

  /** The model has made something on its way: a tool call, a trace, text that was retrieved. */
  artifact(artifact: Artifact<P>, details?: EventDetails): Captured;
  artifact(artifact: Without<Artifact<P>, 'artifact_uri'>, details: WithContent): Captured;
  artifact(artifact: object, details: EventDetails | WithContent = {}): Captured {
    return this.capturing('internal-artifact', details, (uri) => ({
      artifact: withUri(artifact, 'artifact_uri', uri),
    }));
  }

  /** Content has been shown to a person. */
  output(output: Output<P>, details?: EventDetails): Captured;
  output(output: Without<Output<P>, 'output_uri'>, details: WithContent): Captured;
  output(output: object, details: EventDetails | WithContent = {}): Captured {
    return this.capturing('human-output', details, (uri) => ({
      output: withUri(output, 'output_uri', uri),
    }));
  }

  /** Something has happened, perhaps much later, that bears on the run. Content becomes its `evidence_uri`. */
  outcome(outcome: Outcome<P>, details: EventDetails | WithContent = {}): Captured {
    return this.capturing('outcome', details, (uri) => ({
      outcome: withUri(outcome, 'evidence_uri', uri),
    }));
  }

  /** A user has said what they think of the run. */
  feedback(feedback: Feedback<P>, details: EventDetails = {}): Captured {
    return this.capturing('user-feedback', details, () => ({ feedback }));
  }

  /** For `Run`, which knows more of itself. */
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

  /** For `Run`, which knows when it began. */
  protected latencyOf(_kind: EventKind, { latencyMs }: AllDetails): number | undefined {
    return latencyMs;
  }
}

/** A run that was started here. */
export class Run<P extends Profile = 'minimum'> extends RunHandle<P> {
  /** The event that opened the run. */
  readonly startEventId: string;
  /** What became of that event. */
  readonly started: Captured;
  readonly #known: { model: ModelInstance; sampled: SampledRun | undefined };
  /** Undefined when the application says itself when things happened. */
  readonly #startedAt: number | undefined;

  /** @internal Runs are had from a client. */
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

  /** A run within this one: of another model, say, that this one has called. Its parent is this run's start. */
  startRun(start: RunStart<P>, details: RunDetails = {}): Run<P> {
    return new Run<P>(this.capture, start, details, this);
  }

  protected override get known(): { model: ModelInstance; sampled: SampledRun | undefined } {
    return this.#known;
  }

  protected override latencyOf(kind: EventKind, { latencyMs, timestamp }: AllDetails): number | undefined {
    const startedAt = this.#startedAt;
    const measured = kind === 'human-output' && startedAt !== undefined && timestamp === undefined;
    return latencyMs ?? (measured ? latencySince(startedAt) : undefined);
  }
}

interface ReadStart {
  /** A copy: what sampling is told of the model does not change. */
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
