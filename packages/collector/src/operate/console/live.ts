/**
 * The page's script: asks for the state every second and shows it. While the tab is hidden it asks for nothing; when the
 * collector does not answer it keeps what it had, says since when, and asks ever more rarely.
 */
import type { ConsoleState } from './console-state.js';
import type { Element, Lost, Node } from './elements.js';
import { page, pageTitle } from './page.js';
import { SPAN_SECONDS } from './traffic.js';

/*
 * Keeps a part of the document as the elements say, and touches only what has changed: focus, selection, scroll positions
 * and what is folded open stay, and a screen reader hears of nothing that is as before. Text goes in as text.
 */

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS: ReadonlySet<string> = new Set(['svg', 'path', 'line', 'rect', 'circle']);

export class LiveTree {
  #shown: Element | undefined;

  /** @param root its content is replaced by the first tree. */
  constructor(private readonly root: globalThis.Element) {}

  show(tree: Element): void {
    const shown = this.root.firstChild;
    if (this.#shown === undefined || shown === null) this.root.replaceChildren(made(tree));
    else update(shown, this.#shown, tree);
    this.#shown = tree;
  }
}

function made(node: Node): ChildNode {
  if (typeof node === 'string') return document.createTextNode(node);
  const element = SVG_TAGS.has(node.tag)
    ? document.createElementNS(SVG, node.tag)
    : document.createElement(node.tag);
  for (const [name, value] of Object.entries(node.attributes)) element.setAttribute(name, value);
  element.append(...node.children.map(made));
  return element;
}

function update(shown: ChildNode, before: Node, after: Node): void {
  if (before === after) return;
  if (!isSame(before, after)) return shown.replaceWith(made(after));
  if (typeof before === 'string' || typeof after === 'string') {
    shown.textContent = after as string;
    return;
  }
  const element = shown as globalThis.Element;
  for (const name of Object.keys(before.attributes)) {
    if (!(name in after.attributes)) element.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(after.attributes)) {
    if (before.attributes[name] !== value) element.setAttribute(name, value);
  }
  updateChildren(element, before.children, after.children);
}

/** Children with an id are found again wherever they are, the others by their place. */
function updateChildren(parent: globalThis.Element, before: readonly Node[], after: readonly Node[]): void {
  const nodes = [...parent.childNodes];
  const placeOf = new Map(before.flatMap((node, i) => (idOf(node) === undefined ? [] : [[idOf(node), i]])));
  const used = new Set<number>();
  let next: ChildNode | null = parent.firstChild;
  for (const [i, node] of after.entries()) {
    const place = idOf(node) === undefined ? i : placeOf.get(idOf(node));
    const old = place === undefined ? undefined : before[place];
    const shown = place === undefined ? undefined : nodes[place];
    if (place === undefined || old === undefined || shown === undefined || !isSame(old, node)) {
      parent.insertBefore(made(node), next);
      continue;
    }
    used.add(place);
    update(shown, old, node);
    if (shown === next) next = next.nextSibling;
    else parent.insertBefore(shown, next);
  }
  for (const [i, node] of nodes.entries()) if (!used.has(i)) node.remove();
}

/** Whether one can be made the other by a change of its attributes and content. */
function isSame(before: Node, after: Node): boolean {
  if (typeof before === 'string' || typeof after === 'string') return typeof before === typeof after;
  return before.tag === after.tag && idOf(before) === idOf(after);
}

function idOf(node: Node): string | undefined {
  return typeof node === 'string' ? undefined : node.attributes['id'];
}

const EVERY_MS = 1000;
const SLOWEST_MS = 15_000;
const ANSWER_WITHIN_MS = 10_000;

class Live {
  readonly #tree: LiveTree;
  #state: ConsoleState | undefined;
  #answeredAt = Date.now();
  #lost: Lost | undefined;
  #failures = 0;
  #marked: number | undefined;
  #timer: number | undefined;
  #asking = false;
  #drawing = false;

  constructor(private readonly root: HTMLElement) {
    this.#tree = new LiveTree(root);
  }

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
    if (answer.status === 401) throw new Refused('The operator token is asked for: reload the page.');
    if (!answer.ok) throw new Refused(`It answers with ${answer.status}. Asking again.`);
    const state = (await answer.json()) as ConsoleState;
    // A screen on a wall outlives upgrades: a state of another version is for the script of that version.
    if (this.#state !== undefined && this.#state.version !== state.version) {
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
    const reason =
      error instanceof Refused ? error.message : 'The collector cannot be reached. Asking again.';
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
    this.#tree.show(page(view));
    document.title = pageTitle(view);
  }

  /** Not even the first answer came: the page is still the one that the collector wrote. */
  #drawNoState(): void {
    const status = this.root.querySelector('[role=status] strong');
    if (status !== null && this.#lost !== undefined) status.textContent = this.#lost.reason;
  }

  /** The second under the pointer is read out beside the charts. */
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
