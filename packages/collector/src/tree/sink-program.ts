/**
 * The program of the sinks `dir:` and `file:`, which speaks the protocol of docs/reference/sink-programs.md:
 * `node sink-program.js directory|file PATH`.
 */
import '../stray-signals.js';
import fs from 'node:fs';
import { DirectorySink, FileSink } from './disk-sinks.js';

const [, , kind, place = ''] = process.argv;
const sink = kind === 'directory' ? new DirectorySink(place) : new FileSink(place);

function say(text: string): void {
  fs.writeSync(1, text);
}

function sayHeld(note: () => string): void {
  try {
    const held = note();
    say(`held ${Buffer.byteLength(held)}\n${held}`);
  } catch (error) {
    sayAgain(error);
  }
}

function sayAgain(error: unknown): void {
  say(`again ${(error as Error).message.replace(/\s+/g, ' ').slice(0, 500)}\n`);
}

function newest(): string {
  return sink.newest(() => say('\n'));
}

function keep(note: string): void {
  try {
    const other = sink.keep(note);
    if (other === undefined) {
      say('kept\n');
      return;
    }
    say('fork it holds another checkpoint of the same size\n');
    sayHeld(() => other);
  } catch (error) {
    sayAgain(error);
    sayHeld(newest);
  }
}

// A service manager signals every process; the last checkpoints arrive after that.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);

sayHeld(newest);
let input = Buffer.alloc(0);
process.stdin.on('data', (chunk: Buffer) => {
  input = Buffer.concat([input, chunk]);
  for (let start = input.indexOf('\n') + 1; start > 0; start = input.indexOf('\n') + 1) {
    const end = start + Number(input.toString('latin1', 0, start - 1));
    if (input.length < end) return;
    const note = input.toString('utf8', start, end);
    input = input.subarray(end);
    keep(note);
  }
});
