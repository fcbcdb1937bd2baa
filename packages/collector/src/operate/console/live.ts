/**
 * The page's script: requests the state every second and renders it. It pauses while the tab is hidden. When
 * the collector does not answer, it keeps the last state, shows its age and requests at growing intervals.
 */
import { render } from 'preact';
import type { ConsoleState } from './console-state.js';
import type { Lost } from './markup.js';
import { page, pageTitle } from './page.js';
import { SPAN_SECONDS } from './traffic.js';

const EVERY_MS = 1000;
const SLOWEST_MS = 15_000;
const ANSWER_WITHIN_MS = 10_000;

const programOf = ({ version, commit }: ConsoleState) => `${version} ${commit}`;

class Live {
  #state: ConsoleState | undefined;
  #answeredAt = Date.now();
  #lost: Lost | undefined;
  #failures = 0;
  #marked: number | undefined;
  #timer: number | undefined;
  #asking = false;
  #drawing = false;

  constructor(private readonly root: HTMLElement) {}

  start(): void {
    document.addEventListener('visibilitychange', () => this.#next(0));
    this.root.addEventListener('pointermove', (event) => this.#mark(event));
    this.root.addEventListener('pointerleave', () => this.#unmark());
    this.#next(0);
  }

  #next(afterMs: number): void {
    clearTimeout(this.#timer);
    if (document.hidden || this.#asking) return;
    this.#timer = setTimeout(() => {
      this.#asking = true;
      this.#ask()
        .catch((error: unknown) => this.#failed(error))
        .finally(() => {
          this.#asking = false;
          this.#next(this.#failures === 0 ? EVERY_MS : Math.min(SLOWEST_MS, EVERY_MS * 2 ** this.#failures));
          this.#draw();
        });
    }, afterMs);
  }

  async #ask(): Promise<void> {
    const answer = await fetch('console/state.json', {
      cache: 'no-store',
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    if (answer.status === 401) throw new Refused('The operator token is required: reload the page.');
    if (!answer.ok) throw new Refused(`The collector answers with status ${answer.status}. Retrying.`);
    const state = (await answer.json()) as ConsoleState;
    // A screen on a wall outlives upgrades: a state of another version needs that version's script.
    if (this.#state !== undefined && programOf(this.#state) !== programOf(state)) {
      location.reload();
      return;
    }
    this.#state = state;
    this.#answeredAt = Date.now();
    this.#failures = 0;
    this.#lost = undefined;
  }

  #failed(error: unknown): void {
    this.#failures = Math.min(this.#failures + 1, 10);
    const reason = error instanceof Refused ? error.message : 'The collector cannot be reached. Retrying.';
    this.#lost = { since: this.#answeredAt, reason };
  }

  #draw(): void {
    if (this.#state === undefined) return this.#drawNoState();
    const view = {
      state: this.#state,
      connection: this.#lost ?? ('live' as const),
      marked: this.#marked,
      timeOfDay,
    };
    render(page(view), this.root);
    document.title = pageTitle(view);
  }

  /** The first answer is missing: the page is still the one that the collector rendered. */
  #drawNoState(): void {
    const status = this.root.querySelector('[role=status] strong');
    if (status !== null && this.#lost !== undefined) status.textContent = this.#lost.reason;
  }

  /** The second under the pointer is described beside the charts. */
  #mark(event: PointerEvent): void {
    const plot = event.target instanceof Element ? event.target.closest('[data-plot]') : null;
    if (plot === null) return this.#unmark();
    const { left, width } = plot.getBoundingClientRect();
    const part = (event.clientX - left) / width;
    this.#marked = Math.round((1 - Math.min(1, Math.max(0, part))) * SPAN_SECONDS * 2) / 2;
    this.#drawSoon();
  }

  #unmark(): void {
    if (this.#marked === undefined) return;
    this.#marked = undefined;
    this.#drawSoon();
  }

  #drawSoon(): void {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.#draw();
    });
  }
}

/** The collector answered, but not with its state. */
class Refused extends Error {
  override name = 'Refused';
}

const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });

function timeOfDay(at: number): string {
  return CLOCK.format(at);
}

const root = document.getElementById('console');
if (root !== null) new Live(root).start();
