#!/usr/bin/env node
/** The `collector-spool` command: finds what was asked for, and turns what comes of it into lines and an exit code. */
import './stray-signals.js';
import fs from 'node:fs';
import { looksLikeSpool } from '../spool/inspection.js';
import { SpoolKeyWrong } from '../spool/spool.js';
import { type CommandName, readArguments, type Request, USAGE } from './arguments.js';
import { drain } from './drain.js';
import { CommandFailure, EXIT, type ExitCode, Output } from './output.js';
import { requeue, show } from './inspect.js';

const COMMANDS: Readonly<Record<CommandName, (request: Request, output: Output) => Promise<ExitCode>>> = {
  ...{ show, requeue, drain },
};

async function run(args: readonly string[], output: Output): Promise<ExitCode> {
  const read = readArguments(args);
  if (read === 'help' || read === 'version') {
    for (const line of (read === 'help' ? USAGE : version()).trimEnd().split('\n')) await output.say(line);
    return EXIT.ok;
  }
  const { command, request } = read;
  await checkThatThere(request.directory);
  return COMMANDS[command](request, output);
}

/** Opening a spool would make it, and a mistyped path would look like one in which nothing waits. */
async function checkThatThere(directory: string): Promise<void> {
  let there: boolean;
  try {
    there = await looksLikeSpool(directory);
  } catch (error) {
    const code = codeOf(error);
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    throw new CommandFailure(`there is no directory ${directory}`, EXIT.notFound);
  }
  if (!there) throw new CommandFailure(`${directory} holds other things, and no spool`, EXIT.notFound);
}

function version(): string {
  const manifest: unknown = JSON.parse(
    fs.readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  );
  return (manifest as { version: string }).version;
}

/** Says what went wrong. @returns the exit code. */
function report(error: unknown, output: Output): ExitCode {
  // Anyone who reads has seen enough.
  if (codeOf(error) === 'EPIPE') return EXIT.ok;
  if (error instanceof SpoolKeyWrong) {
    output.tell(`${error.message}; see --key-file`);
    return EXIT.usage;
  }
  output.tell(error instanceof Error ? withCause(error) : 'an unknown error');
  return error instanceof CommandFailure ? error.exitCode : EXIT.failure;
}

/** What the system said stands in the cause. */
function withCause(error: Error): string {
  const { cause, message } = error;
  return cause instanceof Error && !(error instanceof CommandFailure)
    ? `${message}: ${cause.message}`
    : message;
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

const output = new Output();
try {
  process.exitCode = await run(process.argv.slice(2), output);
} catch (error) {
  process.exitCode = report(error, output);
}
// Also of a command that has failed: what it had said by then.
await output.flush().catch((error: unknown) => (process.exitCode = report(error, output)));
