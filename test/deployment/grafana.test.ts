import { beforeAll, describe, expect, test } from 'vitest';
import { measure, type Measured, selectorsIn, unknownIn } from './measured.js';
import { textOf } from './repository.js';

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description: string;
  readonly datasource: { readonly uid: string };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { readonly refId: string; readonly expr: string }[];
}
interface Dashboard {
  readonly uid: string;
  readonly schemaVersion: number;
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: unknown }[] };
  readonly panels: readonly Panel[];
}

const dashboard = JSON.parse(textOf('deploy/grafana/dashboard.json')) as Dashboard;
const { panels } = dashboard;
const COLUMNS = 24;

let measured: Measured;
beforeAll(async () => {
  measured = await measure();
});

describe('[R-844] the dashboard', () => {
  test.each(panels.map(({ title, targets }) => [title, targets] as const))(
    '%s shows what a collector measures',
    (_, targets) => {
      expect(targets.length).toBeGreaterThan(0);
      for (const { expr } of targets) {
        expect(selectorsIn(expr), expr).not.toEqual([]);
        expect(unknownIn(selectorsIn(expr), measured), expr).toEqual([]);
        expect(expr).toContain('instance=~"$instance"');
      }
    },
  );

  test.each([
    ['how complete runs are', 'collector_runs'],
    ['how many runs have no outcome', 'collector_runs_without_outcome'],
    ['how many events are orphans', 'collector_orphan_events'],
    ['how old the last back-up is', 'collector_backup_timestamp_seconds'],
    ['how old the last verification is', 'collector_verify_timestamp_seconds'],
  ])('shows %s', (_, metric) => {
    const shown = panels.filter(({ targets }) => targets.some(({ expr }) => expr.includes(`${metric}{`)));
    expect(shown).toHaveLength(1);
  });

  test('uses no variable that it does not have', () => {
    const known = new Set(['__rate_interval', ...dashboard.templating.list.map(({ name }) => name)]);
    const used = [...JSON.stringify(panels).matchAll(/\$\{?(\w+)/g)].map(([, name]) => name ?? '');
    expect(used.filter((name) => !known.has(name))).toEqual([]);
    expect(panels.every(({ datasource }) => datasource.uid === '${datasource}')).toBe(true);
  });

  test('tells its panels apart, explains each, and lays none over another', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { title, description, gridPos } of panels) {
      expect(description.length, title).toBeGreaterThan(10);
      const { x, y, w, h } = gridPos;
      expect(x + w).toBeLessThanOrEqual(COLUMNS);
      for (let column = x; column < x + w; column++) {
        for (let row = y; row < y + h; row++) {
          expect(taken.has(`${column},${row}`), title).toBe(false);
          taken.add(`${column},${row}`);
        }
      }
    }
  });
});
