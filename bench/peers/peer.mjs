/** What every peer does alike: says where it listens, and ends when it is told to or when the bench is gone. */

/**
 * @param server a node:http server that listens.
 * @param end stops everything, and resolves with the number of events stored, or undefined.
 */
export function announce(server, end) {
  process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`);
  let ending;
  let exitCode = 0;
  const stop = () => {
    ending ??= end().then(
      (stored) => {
        process.stdout.write(`${JSON.stringify({ stored: stored ?? null })}\n`, () => process.exit(exitCode));
      },
      (error) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
  process.stdin.on('end', stop).resume();
  // A failed peer takes with it what it has started.
  process.on('uncaughtException', (error) => {
    console.error(error);
    exitCode = 1;
    stop();
  });
}

/** Stops accepting and closes what is open. */
export function closeServer(server) {
  return new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
}
