/** What an expression of PromQL asks for, read by the parser of Prometheus's own editor. */
import { parser } from '@prometheus-io/lezer-promql';

export interface Selector {
  readonly metric: string;
  /** Label and value of each matcher that says `=`. */
  readonly equal: readonly (readonly [label: string, value: string])[];
}

/** @throws when it is no PromQL. */
export function selectorsIn(expression: string): Selector[] {
  const selectors: { metric: string; equal: [string, string][] }[] = [];
  const text = (node: { from: number; to: number }) => expression.slice(node.from, node.to);
  parser.parse(expression).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`no PromQL at ${node.from}: ${expression}`);
      if (node.name === 'VectorSelector') {
        const name = node.node.getChild('Identifier');
        selectors.push({ metric: name === null ? '' : text(name), equal: [] });
      }
      if (node.name !== 'UnquotedLabelMatcher') return;
      const [label, operator, value] = ['LabelName', 'MatchOp', 'StringLiteral'].map((child) => {
        const found = node.node.getChild(child);
        return found === null ? '' : text(found);
      }) as [string, string, string];
      if (operator === '=') selectors.at(-1)?.equal.push([label, JSON.parse(value) as string]);
    },
  });
  return selectors;
}
