/** Turns a definition into a command: its options, help, configuration and exit code. */
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

/** The command of a definition, with its subcommands. */
export function commandOf(definition: Definition): Command {
  const { name, description, configuration, examples, commands = [] } = definition;
  const command = new Command(name).description(description);
  for (const [argument, help] of Object.entries(definition.arguments ?? {})) command.argument(argument, help);
  for (const [flags, option] of Object.entries(definition.options ?? {}))
    command.addOption(ownOption(flags, option));
  if (configuration !== undefined) addConfigOptions(command, configuration);
  if (examples !== undefined) command.addHelpText('after', `\nExamples:\n${examples}`);
  for (const each of commands) command.addCommand(commandOf(each));
  // After `erase plan`, an option belongs to `plan` even if `erase` has one of the same name.
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

/** The values stay text: only `config.ts` parses them. */
function addConfigOptions(command: Command, name: CommandName): void {
  const options = optionsOf(name);
  for (const { name: option, placeholder, help } of options)
    command.option(`--${option} <${placeholder}>`, help);
  // `serve` checks all options together (serve/resolved-config.ts).
  if (name !== 'serve' && options.some((option) => option.name === 'store'))
    command.hook('preAction', () => assertStore(readConfig(givenOptions(command, name))));
}

/** @throws ConfigError if no log can be opened at the address. */
async function assertStore({ config, sourceOf }: ConfigReading): Promise<void> {
  const message = await storeFault(config?.store ?? '');
  if (message !== undefined) throw new ConfigError([{ source: sourceOf('store'), message }]);
}

/** The configuration options on the command line, by name; also those given before a subcommand. */
function givenOptions(command: Command, name: CommandName): Record<string, string> {
  const values = command.optsWithGlobals<Record<string, unknown>>();
  const given: Record<string, string> = {};
  for (const { name: option } of optionsOf(name)) {
    const value = values[option.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())];
    if (typeof value === 'string') given[option] = value;
  }
  return given;
}

/** Runs the command and sets the exit code. */
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

/** The commands that work on a log in a database, or without a log. */
const ON_SHARED_STORES: readonly CommandName[] = [
  ...(['serve', 'keys', 'issuing', 'events', 'doctor', 'signing-key', 'verify', 'proof'] as const),
  ...(['store', 'quarantine', 'mirror', 'lifecycle', 'hold', 'import'] as const),
];

/** @throws ConfigError with every fault; CommandFailure if the command cannot be used on the named store. */
function soundConfig({ config, faults, sourceOf }: ConfigReading, name: CommandName): Config {
  if (config === undefined) throw new ConfigError(faults);
  const { store, dataDir } = config;
  if (isShared(config) && !ON_SHARED_STORES.includes(name)) {
    throw usage(
      `--store: this command reads a data directory: copy the log into one with collector mirror --store ` +
        `${store} --data-dir DIR, then give --data-dir DIR without --store`,
    );
  }
  // Otherwise each command would fail inside it in its own words.
  if (fs.statSync(dataDir, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new ConfigError([{ source: sourceOf('data-dir'), message: `${dataDir} is not a directory` }]);
  if (
    (name === 'lifecycle' || name === 'hold') &&
    isShared(config) &&
    readMirrorNote(dataDir) === undefined
  ) {
    throw usage(
      `--store: this command needs a mirror of the log, and ${dataDir} is not one: make it with collector ` +
        `mirror --store ${store} --data-dir DIR, then give --data-dir DIR together with --store`,
    );
  }
  return config;
}
