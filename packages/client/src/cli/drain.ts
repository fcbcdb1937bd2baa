/** `collector-spool drain`: sends the waiting events of a spool whose application no longer runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { withReason } from '../listeners.js';
import { Endpoint } from '../sending/endpoint.js';
import { Sender } from '../sending/sender.js';
import type { Setback } from '../sending/setback.js';
import { openSpool } from '../spool/disk-spool.js';
import { type InspectedSpool, inspectSpool } from '../spool/inspection.js';
import { type Holder, PATIENCE_MS } from '../spool/process-directory.js';
import type { Damage, SpoolState } from '../spool/spool.js';
import type { Request } from './arguments.js';
import { seenAt, sums } from './inspect.js';
import { CommandFailure, counted, EXIT, type ExitCode, type Output, size } from './output.js';

const TIMEOUT_MS = 60_000;
/** A key may lack the permission for only one kind: the other kinds still get this time. */
const KIND_TIMEOUT_MS = 5000;
const LOOK_MS = 200;
/** Shorter pauses than in an application: an operator is waiting. */
const BACKOFF = { firstMs: 200, longestMs: 5000 };

/** @param patienceMs see `SpoolOptions`. */
export async function drain(
  request: Request,
  output: Output,
  patienceMs: number = PATIENCE_MS,
): Promise<ExitCode> {
  const { directory, key, json } = request;
  const endpoint = endpointOf(request);
  const onTrouble = (what: string, error: unknown) => output.warn(withReason(what, error));
  const course = new Course(request.timeoutMs, output, !json && process.stderr.isTTY);
  const damages: Damage[] = [];
  const spool = await openSpool({
    ...{ directory, durability: 'fsync', onTrouble, reading: course.over, patienceMs },
    onDamage: (damage) => damages.push(damage),
    ...(key && { key }),
  });
  const interrupt = () => course.interrupt();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, interrupt);
  const sender = new Sender({
    ...{ spool, endpoint, backoff: BACKOFF, onTrouble },
    onQuarantine: () => course.refused++,
    onSetback: (setback) => course.setBack(setback),
  });
  const look = () => course.look(sender.sent + sender.erased, spool.state);
  const looking = setInterval(look, LOOK_MS);
  await sender.idle(course.over);
  while (spool.state.watched > 0 && !course.over.aborted) {
    await sleep(LOOK_MS);
    await sender.idle(course.over);
  }
  await sender.stop();
  await spool.flush();
  const { waiting, cut } = spool.state;
  // Reads the segments to their ends, to find damage after the last event. `close` waits for this.
  const lookedOn = spool.take(1, 1, AbortSignal.timeout(0));
  await spool.close();
  await lookedOn;
  clearInterval(looking);
  output.endProgress();
  const { sent, erased } = sender;
  const { refused, why } = course;
  const cause = waiting > 0 ? course.cause : undefined;
  const damage = sumOf(damages);
  if (waiting > 0 && why !== undefined) output.warn(cause === undefined ? why : `${why}: ${cause}`);
  const inspected = await inspectSpool(directory, key);
  const quarantined = inspected.quarantine.reduce((sum, { events }) => sum + events, 0);
  const { held, left, notTaken } = leftOf(inspected);
  // Another process may have adopted events that were waiting, and may send them.
  const still = left.uncounted > 0 ? undefined : Math.max(waiting, left.waiting);
  const result: Result = {
    ...{ found: still === undefined ? undefined : sent + still + refused + erased, sent, erased, refused },
    ...{ still, atLeast: Math.max(waiting, left.waiting), quarantined, held, notTaken, cut, damage, cause },
  };
  if (json) await output.sayJson(asJson(result));
  else for (const line of inWords(result)) await output.say(line);
  if (course.interrupted) return EXIT.interrupted;
  if (damages.length > 0) return EXIT.damaged;
  return still !== 0 || refused > 0 ? EXIT.partly : EXIT.ok;
}

/** The events found, by outcome. */
interface Result extends Record<'sent' | 'erased' | 'refused' | 'atLeast' | 'quarantined' | 'cut', number> {
  /** Undefined if the remaining events cannot be counted. */
  readonly found: number | undefined;
  readonly still: number | undefined;
  readonly held: ReturnType<typeof leftOf>['held'];
  readonly notTaken: ReturnType<typeof leftOf>['notTaken'];
  readonly damage: ReturnType<typeof sumOf>;
  readonly cause: string | undefined;
}

/** The names are stable. */
function asJson({ found, sent, erased, still, refused, quarantined, held, damage, ...rest }: Result) {
  return {
    found: found ?? null,
    sent,
    erased,
    waiting: still ?? null,
    refused,
    in_quarantine: quarantined,
    held_by_others: held.uncounted > 0 ? null : held.waiting,
    not_taken: rest.notTaken,
    cut: rest.cut,
    damaged: { bytes: damage.bytes, missing_events: damage.missing, files: damage.files },
    cause: rest.cause ?? null,
  };
}

function* inWords({ sent, still, atLeast, refused, erased, quarantined, held, ...rest }: Result) {
  const { notTaken, damage } = rest;
  const waiting = still ?? `at least ${atLeast}`;
  yield `${counted(sent, 'event')} sent, ${waiting} still waiting, ${refused} refused.`;
  if (erased > 0) yield `${counted(erased, 'event')} deleted: the collector had stored and erased them.`;
  for (const { path, waiting, why } of notTaken) {
    const count = waiting === null ? 'an unknown number of events' : counted(waiting, 'event');
    yield `NOT TAKEN: ${path}: ${count}; ${why}`;
  }
  if (damage.count > 0) {
    const gone = damage.missing > 0 ? `, ${counted(damage.missing, 'event')} missing` : '';
    yield `DAMAGED: ${size(damage.bytes)}${gone}; see collector-spool show`;
  }
  if (quarantined > 0)
    yield `${counted(quarantined, 'event')} in quarantine: see collector-spool show --events`;
  if (held.uncounted > 0) yield 'An unknown number of events is held by running processes.';
  else if (held.waiting > 0) yield `${counted(held.waiting, 'event')} held by running processes.`;
}

function sumOf(damages: readonly Damage[]) {
  let [bytes, missing] = [0, 0];
  for (const damage of damages) {
    bytes += damage.lost?.bytes ?? 0;
    missing += damage.missing;
  }
  return { count: damages.length, bytes, missing, files: damages.flatMap(({ kept }) => kept ?? []) };
}

/**
 * The rest of the spool: events held by running processes, events left, and parts that could not be adopted.
 */
function leftOf({ parts }: InspectedSpool) {
  const held = sums({ parts: parts.filter(({ holder }) => holder?.here) });
  const others = parts.filter(({ holder, waiting }) => !holder?.here && waiting !== 0);
  const notTaken = others.flatMap(({ path, holder, waiting, problem }) => {
    const why = holder ? `${unknownHolder(holder)}${problem === undefined ? '' : `; ${problem}`}` : problem;
    return why === undefined ? [] : [{ path, waiting: waiting ?? null, why }];
  });
  return { held, left: sums({ parts: others }), notTaken };
}

function unknownHolder(holder: Holder): string {
  return (
    `held by another host, or before a restart, last seen ${seenAt(holder)}; ` +
    `adopted when it is unchanged for ${PATIENCE_MS / 60_000} minutes`
  );
}

/** Progress of the command, and the decision to stop. */
class Course {
  /** Events that went into quarantine. */
  refused = 0;
  /** Why it stopped before all events were sent. */
  why: string | undefined;
  interrupted = false;
  /** From --timeout. */
  readonly #timeoutMs: number | undefined;
  readonly #output: Output;
  /** Standard error is a terminal. */
  readonly #live: boolean;
  readonly #over = new AbortController();
  readonly #reported = new Set<string>();
  #settled = 0;
  #progressAt = performance.now();
  /** The last problem since an event was sent. */
  #setback: Setback | undefined;
  /** The last problem of a single kind, which other kinds do not clear. */
  #ofKind: Setback | undefined;

  constructor(timeoutMs: number | undefined, output: Output, live: boolean) {
    this.#timeoutMs = timeoutMs;
    this.#output = output;
    this.#live = live;
  }

  get over(): AbortSignal {
    return this.#over.signal;
  }

  get cause(): string | undefined {
    const setback = this.#setback ?? this.#ofKind;
    return setback && withReason(setback.what, setback.error);
  }

  setBack(setback: Setback): void {
    if (this.over.aborted) return;
    if (setback.lasting === 'kind') this.#ofKind = setback;
    else this.#setback = setback;
    if (setback.lasting === 'all') return this.end('nothing more is sent');
    const report = withReason(setback.what, setback.error);
    if (this.#live || this.#reported.has(report)) return;
    this.#reported.add(report);
    this.#output.warn(report);
  }

  look(sent: number, { waiting, watched }: SpoolState): void {
    if (waiting === 0) return this.#watch(sent, watched);
    if (sent + this.refused > this.#settled) {
      this.#settled = sent + this.refused;
      this.#progressAt = performance.now();
      this.#setback = undefined;
    }
    const standingMs = performance.now() - this.#progressAt;
    const timeoutMs = this.#timeoutMs ?? TIMEOUT_MS;
    if (standingMs >= timeoutMs) {
      const still = this.cause === undefined ? ': no event was read or answered' : '';
      return this.end(`given up after ${timeoutMs / 1000} s${still}`);
    }
    if (!this.#setback && this.#ofKind && standingMs >= KIND_TIMEOUT_MS) {
      return this.end('nothing more is sent');
    }
    if (!this.#live) return;
    const { cause } = this;
    const done = `${sent.toLocaleString('en')} of ${counted(this.#settled + waiting, 'event')} sent`;
    this.#output.progress(cause === undefined ? done : `${done}; ${cause}`);
  }

  /** Waits for parts whose holder may be alive. */
  #watch(sent: number, watched: number): void {
    if (watched === 0) return;
    const still = performance.now() - this.#progressAt;
    if (this.#timeoutMs !== undefined && still >= this.#timeoutMs) return this.end('given up');
    const minutes = PATIENCE_MS / 60_000;
    const parts = counted(watched, 'part');
    const said = `${parts} of another host or before a restart: adopted when unchanged for ${minutes} minutes`;
    if (this.#live) this.#output.progress(`${counted(sent, 'event')} sent; ${said}`);
    else if (!this.#reported.has(said)) {
      this.#reported.add(said);
      this.#output.warn(said);
    }
  }

  interrupt(): void {
    this.interrupted = true;
    this.end('stopped by a signal');
  }

  end(why: string): void {
    this.why ??= why;
    this.#over.abort();
  }
}

/** @throws CommandFailure */
function endpointOf({ url, apiKey }: Request): Endpoint {
  if (!url) throw new CommandFailure('no collector address: give --url or set COLLECTOR_URL', EXIT.usage);
  if (!apiKey) throw new CommandFailure('no API key: give --api-key-file or set COLLECTOR_KEY', EXIT.usage);
  const endpoint = new Endpoint({ url, apiKey });
  try {
    endpoint.check();
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : 'invalid destination', EXIT.usage);
  }
  return endpoint;
}
