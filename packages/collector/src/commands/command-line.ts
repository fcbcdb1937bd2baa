/** Makes a definition a command that can be typed: its options, its help, its configuration and its exit code. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { Command, Option } from 'commander';
import {
  type CommandName,
  type Config,
  ConfigError,
  type ConfigReading,
  optionsOf,
  readConfig,
} from '../config.js';
import { isShared, storeFault } from '../store/open.js';
import { readMirrorNote } from '../tree/state-files.js';
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
  // An option after `erase plan` is that command's, also where `erase` has one of the same name.
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

/** Their values stay text: `config.ts` alone reads them. */
function addConfigOptions(command: Command, name: CommandName): void {
  const options = optionsOf(name);
  for (const { name: option, placeholder, help } of options)
    command.option(`--${option} <${placeholder}>`, help);
  // A start finds the faults of all options together (serve/resolved-config.ts).
  if (name !== 'serve' && options.some((option) => option.name === 'store'))
    command.hook('preAction', () => assertStore(readConfig(givenOptions(command, name))));
}

/** @throws ConfigError where no log can be opened by the address. */
async function assertStore({ config, sourceOf }: ConfigReading): Promise<void> {
  const message = await storeFault(config?.store ?? '');
  if (message !== undefined) throw new ConfigError([{ source: sourceOf('store'), message }]);
}

/** The options of the configuration that were typed, by name; also before the command, where a group has them too. */
function givenOptions(command: Command, name: CommandName): Record<string, string> {
  const values = command.optsWithGlobals<Record<string, unknown>>();
  const given: Record<string, string> = {};
  for (const { name: option } of optionsOf(name)) {
    const value = values[option.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())];
    if (typeof value === 'string') given[option] = value;
  }
  return given;
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
      return soundConfig(reading(instead), configuration);
    },
  };
}

/** The commands that work where the log is in a database, or without a log. */
const ON_SHARED_STORES: readonly CommandName[] = [
  ...(['serve', 'keys', 'issuing', 'events', 'doctor', 'signing-key', 'verify', 'proof'] as const),
  ...(['store', 'quarantine', 'mirror', 'lifecycle', 'hold', 'import'] as const),
];

/** @throws ConfigError with every fault; CommandFailure where the command cannot be used on the store that is named. */
function soundConfig({ config, faults, sourceOf }: ConfigReading, name: CommandName): Config {
  if (config === undefined) throw new ConfigError(faults);
  const { store, dataDir } = config;
  if (isShared(config) && !ON_SHARED_STORES.includes(name)) {
    throw usage(
      `--store: this command reads a data directory: copy the log into one with collector mirror --store ` +
        `${store} --data-dir DIR, and then give --data-dir DIR and no --store`,
    );
  }
  // Each command would fail in it in its own words, and none would name it.
  if (fs.statSync(dataDir, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new ConfigError([{ source: sourceOf('data-dir'), message: `${dataDir} is not a directory` }]);
  if (
    (name === 'lifecycle' || name === 'hold') &&
    isShared(config) &&
    readMirrorNote(dataDir) === undefined
  ) {
    throw usage(
      `--store: this is done on a mirror of the log, and ${dataDir} is not a mirror: make one with collector mirror --store ` +
        `${store} --data-dir DIR, and give --data-dir DIR with --store`,
    );
  }
  return config;
}
