/** Announces the port of a peer, and ends the peer at SIGTERM or when the bench has ended. */

/**
 * @param server a node:http server that listens.
 * @param end stops everything, and resolves with the number of stored events, or undefined.
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
  // A failed peer stops the processes that it has started.
  process.on('uncaughtException', (error) => {
    console.error(error);
    exitCode = 1;
    stop();
  });
}

/** Stops accepting and closes all connections. */
export function closeServer(server) {
  return new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
}
