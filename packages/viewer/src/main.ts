#!/usr/bin/env node
/** The `collector-viewer` command. */
import '@clinical-events/collector/stray-signals';

const NEEDED = 24;

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  process.stderr.write(
    `collector-viewer: needs Node.js ${NEEDED} or newer, but this is ${process.versions.node}\n`,
  );
  process.exitCode = 2;
} else {
  const { main } = await import('./program.js');
  await main(process.argv.slice(2));
}
