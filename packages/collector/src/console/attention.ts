/** What an operator should look at, the most severe first, and what to do about each; and what is not set up yet. */
import type { Hint, Warning } from './console-state.js';
import { h, type Child, type Element } from './element.js';
import { count, counted } from './format.js';
import { chip, type View } from './view.js';

/** So many of a kind are told one by one; two hundred keys that expire together are one thing to do. */
const TOLD = 2;

/** Nothing where all is well: the status at the top says so. */
export function attention({ state: { warnings } }: View): Child {
  if (warnings.length === 0) return false;
  return h(
    'section',
    { id: 'attention', 'aria-labelledby': 'attention-heading' },
    h('h2', { id: 'attention-heading', class: 'hidden' }, 'What needs attention'),
    h('ul', { class: 'alerts' }, groupsOf(warnings).map(group)),
  );
}

/** What is not set up yet. May be folded away by whoever has decided otherwise. */
export function hints({ state: { hints: list } }: View): Child {
  if (list.length === 0) return false;
  return h(
    'section',
    { id: 'hints', 'aria-labelledby': 'hints-heading' },
    h('h2', { id: 'hints-heading', class: 'hidden' }, 'What is not set up yet'),
    h(
      'details',
      { class: 'hints', open: true },
      h('summary', {}, `${counted(list.length, 'thing')} not set up yet`),
      h(
        'ul',
        {},
        list.map((hint) => h('li', {}, item(hint))),
      ),
    ),
  );
}

/** `2 critical, 1 warning`, or nothing. */
export function summary(warnings: readonly Warning[]): string {
  const critical = warnings.filter(({ severity }) => severity === 'critical').length;
  const others = warnings.length - critical;
  return [critical > 0 && `${critical} critical`, others > 0 && counted(others, 'warning')]
    .filter((part) => part !== false)
    .join(', ');
}

interface Group {
  readonly id: string;
  readonly warnings: readonly [Warning, ...Warning[]];
}

/** Those of the same id and severity together, in the order in which they came. */
function groupsOf(warnings: readonly Warning[]): Group[] {
  const groups = new Map<string, [Warning, ...Warning[]]>();
  for (const warning of warnings) {
    const id = `${warning.severity}-${warning.id}`;
    const group = groups.get(id);
    if (group === undefined) groups.set(id, [warning]);
    else group.push(warning);
  }
  return [...groups].map(([id, list]) => ({ id, warnings: list }));
}

function group({ id, warnings }: Group): Element {
  const [first] = warnings;
  const told = warnings.length <= TOLD + 1 ? warnings : warnings.slice(0, TOLD);
  const others = warnings.slice(told.length);
  return h(
    'li',
    { id: `attention-${id}`, class: `alert ${first.severity}` },
    chip(first.severity, first.severity === 'critical' ? 'Critical' : 'Warning'),
    h(
      'div',
      { class: 'items' },
      told.map(item),
      others.length > 0 &&
        h(
          'details',
          {},
          h('summary', {}, `${count(others.length)} more of the same kind`),
          h('div', { class: 'items' }, others.map(item)),
        ),
    ),
  );
}

function item({ title, what_to_do }: Hint): Child {
  return h('div', {}, h('h3', {}, title), h('p', {}, what_to_do));
}
