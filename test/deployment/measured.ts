/** All that a collector can measure: one with a key that expires, a sink and a certificate, asked for its metrics. */
import fs from 'node:fs';
import path from 'node:path';
import { Authority, writePair } from '../../packages/collector/test/running/certificates.js';
import { start, temporaryDirectory } from '../../packages/collector/test/running/collector-process.js';
import { issueKey } from '../../packages/collector/test/running/issued-keys.js';

export interface Selector {
  readonly metric: string;
  /** Label and value of each matcher that says `=`. */
  readonly equal: readonly (readonly [label: string, value: string])[];
}

/** What an expression asks for, by the names that metrics begin with; whether it is PromQL, promtool knows. */
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
  /** Lines by the name that stands on them. */
  readonly lines: ReadonlyMap<string, readonly string[]>;
}

export async function measure(): Promise<Measured> {
  const directory = temporaryDirectory();
  const dataDir = path.join(directory, 'data');
  await issueKey(dataDir, { expiresAt: Date.now() + 86_400_000 });
  const pair = writePair(directory, new Authority().issue({ names: ['dns:localhost'] }));
  const sink = path.join(directory, 'sink');
  fs.mkdirSync(sink);
  const running = await start(dataDir, [...pair, '--checkpoint-sink', `dir:${sink}`]);
  try {
    const port = /"port":(\d+),[^\n]*"msg":"management listening"/.exec(running.output.stderr)?.[1];
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const lines = new Map<string, string[]>();
    for (const line of text.split('\n')) {
      const name = /^[a-z][a-z0-9_]*/.exec(line)?.[0] ?? /^# TYPE (\S+)/.exec(line)?.[1];
      if (name !== undefined) lines.set(name, [...(lines.get(name) ?? []), line]);
    }
    return { lines };
  } finally {
    await running.stop();
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

/** What Prometheus measures itself, and labels that it adds. */
const ITS_OWN = ['up'];
const ADDED = ['job', 'instance'];

/** @returns what selects something that no collector tells. */
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
