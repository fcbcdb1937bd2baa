/** Start, interruption, failure and end of the commands of the bench. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { cleanUp } from './children.mjs';
import { DIST } from './collector.mjs';
import { Unusable } from './unusable.mjs';

/** @throws Unusable if the collector is not built. */
export function requireBuilt() {
  if (!existsSync(path.join(DIST, 'main.js')))
    throw new Unusable('the collector is not built: run "npm run build" first');
}

/**
 * Runs `main`, then removes temporary files. The exit code is the result of `main`, 2 if it could not begin,
 * 1 if it failed, 130 if it was interrupted.
 * @param onStop called when it is interrupted.
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
    // Failures after an interruption are expected.
    if (interrupted) await new Promise(() => undefined);
    const isUsage = error instanceof Unusable || error.code?.startsWith('ERR_PARSE_ARGS');
    process.stderr.write(`${name}: ${isUsage ? error.message : error.stack}\n`);
    code = isUsage ? 2 : 1;
  }
  await cleanUp();
  process.exitCode = code;
}
