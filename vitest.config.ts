import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
    // Process tests start real collectors; two cores cannot time more of them fairly.
    maxWorkers: 2,
    // To end what hangs, not to judge how fast a machine is.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // By default a second, which a busy machine takes for less than what is waited for.
    expect: { poll: { timeout: 60_000 } },
  },
});
