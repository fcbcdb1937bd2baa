// Compiles every package into its dist/. Plain `tsc -b`: incremental, in dependency order.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';

const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const { status } = spawnSync(
  process.execPath,
  [tsc, '-b', 'packages/protocol', 'packages/client', 'packages/collector'],
  {
    stdio: 'inherit',
  },
);
process.exit(status ?? 1);
