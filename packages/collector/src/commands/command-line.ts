/** Makes a definition a command that can be typed: its options, its help and its exit code. */
import assert from 'node:assert/strict';
import { Command, Option } from 'commander';
import { type Config, readConfig } from '../config.js';
import { isShared } from '../store/open.js';
import { readMirrorNote } from '../tree/state-files.js';
import { addConfigOptions, givenOptions, soundConfig } from './arguments.js';
import type { Call, Definition, OwnOption } from './define.js';
import { usage } from './exit-codes.js';

/** The command of a definition, with those below it. */
export function commandOf(definition: Definition): Command {
  const { name, description, configuration, examples, commands = [] } = definition;
  const command = new Command(name).description(description);
  for (const [argument, help] of Object.entries(definition.arguments ?? {})) command.argument(argument, help);
  for (const [flags, option] of Object.entries(definition.options ?? {}))
    command.addOption(ownOption(flags, option));
  if (configuration !== undefined) addConfigOptions(command, configuration);
  if (examples !== undefined) command.addHelpText('after', `\nExamples:\n${examples}`);
  for (const each of commands) command.addCommand(commandOf(each));
  // An option behind `erase plan` is that command's, also where `erase` has one of the same name.
  if (commands.length > 0) command.enablePositionalOptions();
  if ('run' in definition) command.action(() => act(command, definition));
  return command;
}

function ownOption(flags: string, declared: OwnOption): Option {
  if (typeof declared === 'string') return new Option(flags, declared);
  const { help, choices, isRequired, isRepeatable } = declared;
  const option = new Option(flags, help).default(declared.default).makeOptionMandatory(isRequired === true);
  if (choices !== undefined) option.choices(choices);
  if (isRepeatable)
    option.argParser((value, before: readonly string[] | undefined) => [...(before ?? []), value]);
  return option;
}

/** On return the command is done, and the exit code is set. */
async function act(command: Command, definition: Definition): Promise<void> {
  if (definition.hidesArguments) process.title = titleOf(command);
  const exitCode = await definition.run?.(callOf(command, definition), ...command.args);
  process.exitCode = exitCode ?? process.exitCode;
}

/** `collector erase`, also for `erase plan`. */
function titleOf(command: Command): string {
  let top = command;
  while (top.parent?.parent) top = top.parent;
  return `collector ${top.name()}`;
}

function callOf(command: Command, { configuration }: Definition): Call {
  const given = configuration === undefined ? {} : givenOptions(command, configuration);
  const reading: Call['reading'] = (instead) => readConfig({ ...given, ...instead });
  return {
    options: command.opts(),
    given,
    reading,
    config(instead) {
      assert(configuration !== undefined, `${command.name()} takes no options of the configuration`);
      const config = soundConfig(reading(instead), configuration);
      if (configuration === 'lifecycle') assertMirror(config);
      return config;
    },
  };
}

/** @throws CommandFailure where the log is in a database and the data directory is not a mirror of it. */
function assertMirror({ store, dataDir }: Config): void {
  if (!isShared({ store }) || readMirrorNote(dataDir) !== undefined) return;
  throw usage(
    `--store: this is done on a mirror of the log, and ${dataDir} is not a mirror: make one with collector mirror --store ` +
      `${store} --data-dir DIR, and give --data-dir DIR with --store`,
  );
}
