import { spawnSync } from 'node:child_process';
import { beforeAll, describe, expect, test } from 'vitest';
import { WARNINGS } from '../../packages/collector/src/operate/warnings.js';
import { measure, type Measured, selectorsIn, unknownIn } from './measured.js';
import { configFrom, ROOT, textOf, yamlOf } from './repository.js';

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly runbook: string };
}

const { groups } = yamlOf('deploy/prometheus/rules.yaml') as { groups: { name: string; rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const pages = textOf('docs/guide/alerts.md');
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

let measured: Measured;
beforeAll(async () => {
  measured = await measure();
});

describe('[R-1400] the alerts', () => {
  test.each(rules.map(({ alert, expr }) => [alert, expr]))(
    '%s uses metrics that a collector has',
    (_, expr) => {
      const selectors = selectorsIn(expr);
      expect(selectors).not.toEqual([]);
      expect(unknownIn(selectors, measured)).toEqual([]);
    },
  );

  test('would fail this check with an unknown metric or label value', () => {
    expect(unknownIn(selectorsIn('collector_raedy == 0'), measured)).toEqual(['collector_raedy']);
    expect(unknownIn(selectorsIn('collector_sink_state{state="down"} == 1'), measured)).toHaveLength(1);
  });

  test('each have a section in the run book, and each section has an alert', () => {
    const named = [...pages.matchAll(/^#+ (Collector\w+)$/gm)].map(([, name]) => name);
    expect(named).toEqual(rules.map(({ alert }) => alert));
    for (const { alert, annotations } of rules) {
      expect(annotations.runbook).toBe(`docs/guide/alerts.md, "${alert}"`);
    }
  });

  test('fire for everything that the console warns of', () => {
    const names = rules.map(({ alert }) => alert);
    for (const [id, { alert }] of Object.entries(WARNINGS)) expect(names, id).toContain(alert);
  });

  test.skipIf(!hasPromtool)('are understood by Prometheus, and fire when they should', () => {
    const args = [
      ['check', 'rules', 'rules.yaml'],
      ['check', 'config', '--syntax-only', 'prometheus.yaml'],
      ['test', 'rules', 'rules.test.yaml'],
    ];
    for (const each of args) {
      const { status, stdout, stderr } = spawnSync('promtool', each, {
        ...{ cwd: `${ROOT}/deploy/prometheus`, encoding: 'utf8' },
      });
      expect(status, stdout + stderr).toBe(0);
    }
  });
});

test('[R-1400] Prometheus scrapes the management port, in the job that the alerts name', () => {
  const { scrape_configs: jobs } = yamlOf('deploy/prometheus/prometheus.yaml') as {
    scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[];
  };
  const selected = rules.flatMap(({ expr }) => selectorsIn(expr).flatMap(({ equal }) => equal));
  const named = new Set(selected.filter(([label]) => label === 'job').map(([, value]) => value));
  expect([...named]).toEqual(jobs.map(({ job_name }) => job_name));
  const targets = jobs.flatMap(({ static_configs }) => static_configs.flatMap((each) => each.targets));
  expect(targets).toEqual([expect.stringMatching(new RegExp(`:${configFrom({}).managementPort}$`))]);
});
