// Runs `collector` commands one after another, each as the program does, for tests that run thousands of them.
// Takes {argv} and answers {code, stdout, stderr}, both over IPC.
import { main } from '../../dist/commands/program.js';

const { stdout, stderr } = process;
process.setMaxListeners(0);
const ended = process.exit.bind(process);
// A command that fails asks to be ended; its exit code is what counts.
process.exit = (code) => (process.exitCode = code);

process.on('message', async ({ argv }) => {
  const output = { stdout: '', stderr: '' };
  const restore = Object.entries({ stdout, stderr }).map(([name, stream]) => {
    const { write } = stream;
    stream.write = (text, encoding, done = encoding) => {
      output[name] += text;
      if (typeof done === 'function') done();
      return true;
    };
    return () => (stream.write = write);
  });
  process.exitCode = 0;
  await main(argv);
  // The exit handlers of a command, and its signal handlers.
  for (const listener of process.rawListeners('exit')) listener.call(process, process.exitCode);
  for (const name of [
    'exit',
    'unhandledRejection',
    'uncaughtException',
    'SIGINT',
    'SIGTERM',
    'SIGHUP',
    'SIGQUIT',
  ])
    process.removeAllListeners(name);
  for (const back of restore) back();
  for (const stream of [stdout, stderr]) stream.removeAllListeners('error');
  process.send({ code: process.exitCode, ...output });
});
process.on('disconnect', () => ended(0));
