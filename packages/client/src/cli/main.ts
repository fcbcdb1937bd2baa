#!/usr/bin/env node
/** The `collector-spool` command. */
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
  await checkIsSpool(request.directory);
  return COMMANDS[command](request, output);
}

/** Opening a spool would create it, so a mistyped path would look like an empty spool. */
async function checkIsSpool(directory: string): Promise<void> {
  let isSpool: boolean;
  try {
    isSpool = await looksLikeSpool(directory);
  } catch (error) {
    const code = codeOf(error);
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    throw new CommandFailure(`there is no directory ${directory}`, EXIT.notFound);
  }
  if (!isSpool) throw new CommandFailure(`${directory} is not a spool`, EXIT.notFound);
}

function version(): string {
  const manifest: unknown = JSON.parse(
    fs.readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  );
  return (manifest as { version: string }).version;
}

/** Prints the error. @returns the exit code. */
function report(error: unknown, output: Output): ExitCode {
  // The reader of a pipe has closed it.
  if (codeOf(error) === 'EPIPE') return EXIT.ok;
  if (error instanceof SpoolKeyWrong) {
    output.warn(`${error.message}; see --key-file`);
    return EXIT.usage;
  }
  output.warn(error instanceof Error ? withCause(error) : 'an unknown error');
  return error instanceof CommandFailure ? error.exitCode : EXIT.failure;
}

/** The error of the system is in the cause. */
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
// A failed command may have printed lines before its error.
await output.flush().catch((error: unknown) => (process.exitCode = report(error, output)));
