/** What every peer does alike: says where it listens, and ends when it is told to or when the bench is gone. */

/**
 * @param server a node:http server that listens.
 * @param end stops everything, and resolves with the number of events stored, or undefined.
 */
export function announce(server, end) {
  process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`);
  let ending;
  const stop = () => {
    ending ??= end().then(
      (stored) => {
        process.stdout.write(`${JSON.stringify({ stored: stored ?? null })}\n`, () => process.exit(0));
      },
      (error) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
  process.stdin.on('end', stop).resume();
}

/** Stops accepting and closes what is open. */
export function closeServer(server) {
  return new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
}
