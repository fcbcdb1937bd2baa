/** What the commands of the benchmarks have in common: how they begin, are interrupted, fail and end. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { cleanUp } from './children.mjs';
import { DIST } from './collector.mjs';
import { Unusable } from './unusable.mjs';

/** @throws Unusable unless there is a collector to start. */
export function requireBuilt() {
  if (!existsSync(path.join(DIST, 'main.js')))
    throw new Unusable('the collector is not built: run "npm run build" first');
}

/**
 * Runs `main` and removes what was made. The exit code is what it returns; 2 when it could not begin, 1 when it failed,
 * 130 when it was interrupted.
 * @param onStop done at once when it is.
 */
export async function runCommand(name, main, onStop = () => undefined) {
  let interrupted = false;
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, async () => {
      if (interrupted) return;
      interrupted = true;
      process.stderr.write(`\n${name}: stopping\n`);
      onStop();
      await cleanUp();
      process.exit(130);
    });
  }
  let code;
  try {
    code = await main();
  } catch (error) {
    // What ends while everything is being ended is no news.
    if (interrupted) await new Promise(() => undefined);
    const isUsage = error instanceof Unusable || error.code?.startsWith('ERR_PARSE_ARGS');
    process.stderr.write(`${name}: ${isUsage ? error.message : error.stack}\n`);
    code = isUsage ? 2 : 1;
  }
  await cleanUp();
  process.exitCode = code;
}
