/** `collector-spool drain`: sends what waits, where no application does: after a host was retired, say. */
import { withReason } from '../listeners.js';
import { checkDestination, endpointFor, type Destination } from '../sending/endpoint-for.js';
import { Sender } from '../sending/sender.js';
import type { Setback } from '../sending/setback.js';
import { inspectSpool } from '../spool/inspection.js';
import { Spool } from '../spool/spool.js';
import type { Request } from './arguments.js';
import { CommandFailure, EXIT, type ExitCode } from './exit-codes.js';
import { counted, type Output } from './output.js';
import { sums } from './show.js';

const TIMEOUT_MS = 60_000;
/** A key that may not send one kind may send the others: they are waited for, but not for long. */
const KIND_TIMEOUT_MS = 5000;
const LOOK_MS = 200;
/** Somebody waits, and one request at a time is made while it fails: shorter pauses than an application's. */
const BACKOFF = { firstMs: 200, longestMs: 5000 };

export async function drain(request: Request, output: Output): Promise<ExitCode> {
  const { directory, key, json, timeoutMs = TIMEOUT_MS } = request;
  const destination = destinationOf(request);
  const onTrouble = (what: string, error: unknown) => output.tell(withReason(what, error));
  // With what nobody holds taken over, or the error of a spool that cannot be used.
  const spool = await Spool.open({ directory, durability: 'fsync', onTrouble, ...(key && { key }) });
  const course = new Course(timeoutMs, output, !json && process.stderr.isTTY);
  const interrupt = () => course.interrupt();
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  const sender = new Sender({
    ...{ spool, endpoint: endpointFor(destination), backoff: BACKOFF, onTrouble },
    onQuarantine: () => course.refused++,
    onSetback: (setback) => course.setBack(setback),
  });
  const looking = setInterval(() => course.look(sender.sent, spool.state.waiting), LOOK_MS);
  await sender.idle(course.over);
  clearInterval(looking);
  await sender.stop();
  await spool.flush();
  const { waiting } = spool.state;
  await spool.close();
  output.endProgress();
  const { sent } = sender;
  const { refused, why } = course;
  const cause = waiting > 0 ? course.cause : undefined;
  if (waiting > 0 && why !== undefined) output.tell(cause === undefined ? why : `${why}: ${cause}`);
  const left = await inspectSpool(directory, key);
  const quarantined = left.quarantine.reduce((sum, { events }) => sum + events, 0);
  // What another host has left is taken over after minutes of silence, and until then is of those that hold.
  const held = Math.max(0, sums(left).waiting - waiting);
  if (json) {
    const counts = { found: sent + waiting + refused, sent, waiting, refused };
    await output.sayJson({
      ...counts,
      in_quarantine: quarantined,
      held_by_others: held,
      cause: cause ?? null,
    });
  } else {
    await output.say(`${counted(sent, 'event')} sent, ${waiting} still waiting, ${refused} refused.`);
    if (quarantined > 0) {
      await output.say(`${counted(quarantined, 'event')} in quarantine: see collector-spool quarantine`);
    }
    if (held > 0) await output.say(`${counted(held, 'event')} left to the processes that hold them.`);
  }
  if (course.interrupted) return EXIT.interrupted;
  return waiting + refused > 0 ? EXIT.partly : EXIT.ok;
}

/** How it goes, told as it goes, and when it is over. */
class Course {
  /** Events that went into quarantine. */
  refused = 0;
  /** Why it has ended before all was sent. */
  why: string | undefined;
  interrupted = false;
  readonly #timeoutMs: number;
  readonly #output: Output;
  /** Whether somebody looks on, at a terminal. */
  readonly #live: boolean;
  readonly #over = new AbortController();
  readonly #told = new Set<string>();
  #settled = 0;
  #progressAt = performance.now();
  /** Since the last progress. */
  #setback: Setback | undefined;
  /** That of a kind lasts, whatever becomes of the others. */
  #ofKind: Setback | undefined;

  constructor(timeoutMs: number, output: Output, live: boolean) {
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
    const told = withReason(setback.what, setback.error);
    if (this.#live || this.#told.has(told)) return;
    this.#told.add(told);
    this.#output.tell(told);
  }

  look(sent: number, waiting: number): void {
    if (sent + this.refused > this.#settled) {
      this.#settled = sent + this.refused;
      this.#progressAt = performance.now();
      this.#setback = undefined;
    }
    const standingMs = performance.now() - this.#progressAt;
    if (standingMs >= this.#timeoutMs) return this.end(`given up after ${this.#timeoutMs / 1000} s`);
    if (!this.#setback && this.#ofKind && standingMs >= KIND_TIMEOUT_MS) {
      return this.end('nothing more is sent');
    }
    if (!this.#live) return;
    const { cause } = this;
    const done = `${sent.toLocaleString('en')} of ${counted(this.#settled + waiting, 'event')} sent`;
    this.#output.progress(cause === undefined ? done : `${done}; ${cause}`);
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
function destinationOf({ url, apiKey }: Request): Destination {
  if (!url) throw new CommandFailure('where is the collector? --url, or COLLECTOR_URL', EXIT.usage);
  if (!apiKey) throw new CommandFailure('with which API key? --api-key-file, or COLLECTOR_KEY', EXIT.usage);
  try {
    checkDestination({ url, apiKey });
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : 'this makes no sense', EXIT.usage);
  }
  return { url, apiKey };
}
