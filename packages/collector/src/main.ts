#!/usr/bin/env node
/**
 * The `collector` command. Only stray-signals.js and this check may be imported before it: an older Node
 * fails at the first import of `node:sqlite`, with a stack trace that does not explain the cause.
 */
import './stray-signals.js';
import { EXIT } from './commands/exit-codes.js';

const NEEDED = 24;

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  process.stderr.write(`collector: needs Node.js ${NEEDED} or newer, but this is ${process.versions.node}\n`);
  process.exitCode = EXIT.usage;
} else {
  const { main } = await import('./commands/program.js');
  await main(process.argv.slice(2));
}
