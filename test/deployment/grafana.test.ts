import { beforeAll, describe, expect, test } from 'vitest';
import { measure, type Measured, selectorsIn, unknownIn } from './measured.js';
import { textOf } from './repository.js';

interface Dashboard {
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
}

const { panels } = JSON.parse(textOf('deploy/grafana/dashboard.json')) as Dashboard;

let measured: Measured;
beforeAll(async () => {
  measured = await measure();
});

describe('[R-1400] the dashboard', () => {
  test.each(panels.map(({ title, targets }) => [title, targets] as const))(
    '%s shows metrics that a collector has',
    (_, targets) => {
      expect(targets.length).toBeGreaterThan(0);
      for (const { expr } of targets) {
        expect(selectorsIn(expr), expr).not.toEqual([]);
        expect(unknownIn(selectorsIn(expr), measured), expr).toEqual([]);
        expect(expr).toContain('instance=~"$instance"');
      }
    },
  );

  test('has a different id for each panel', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  });
});
