/** The declared metrics of a collector that has a key, a sink and a certificate. */
import { metricsText } from '../../packages/collector/src/operate/metrics.js';
import { watchProcess } from '../../packages/collector/src/operate/process-metrics.js';
import { holding, SHARED, WELL } from '../../packages/collector/test/operate/well.js';

export interface Selector {
  readonly metric: string;
  /** Label and value of each matcher that says `=`. */
  readonly equal: readonly (readonly [label: string, value: string])[];
}

/** The metrics in an expression, by the start of their names; promtool checks that it is PromQL. */
export function selectorsIn(expression: string): Selector[] {
  return [
    ...expression.matchAll(/\b(?<metric>(?:collector|nodejs|process)_\w+|up)\b(?:\{(?<matchers>[^}]*)\})?/g),
  ].map(({ groups }) => ({
    metric: groups?.['metric'] ?? '',
    equal: [...(groups?.['matchers'] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(
      ([, label = '', value = '']) => [label, value],
    ),
  }));
}

export interface Measured {
  /** Lines by the name that they contain. */
  readonly lines: ReadonlyMap<string, readonly string[]>;
}

export async function measure(): Promise<Measured> {
  const facts = { ...WELL, ...holding({ shared: SHARED }) };
  const { text } = await metricsText(facts, await watchProcess()(), false);
  const lines = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const name = /^[a-z][a-z0-9_]*/.exec(line)?.[0] ?? /^# TYPE (\S+)/.exec(line)?.[1];
    if (name !== undefined) lines.set(name, [...(lines.get(name) ?? []), line]);
  }
  return { lines };
}

/** The metrics of Prometheus itself, and labels that it adds. */
const ITS_OWN = ['up'];
const ADDED = ['job', 'instance'];

/** @returns the selectors of metrics that no collector reports. */
export function unknownIn(selectors: readonly Selector[], { lines }: Measured): string[] {
  return selectors.flatMap(({ metric, equal }) => {
    if (ITS_OWN.includes(metric)) return [];
    const found = lines.get(metric);
    if (found === undefined) return [metric];
    const wanted = equal.filter(([label]) => !ADDED.includes(label));
    const met = found.some((line) => wanted.every(([label, value]) => line.includes(`${label}="${value}"`)));
    return met ? [] : [`${metric}${JSON.stringify(wanted)}`];
  });
}
