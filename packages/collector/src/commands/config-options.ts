/** Between commander and the declaration of the configuration. */
import fs from 'node:fs';
import type { Command } from 'commander';
import {
  type CommandName,
  type Config,
  ConfigError,
  optionsOf,
  type ConfigReading,
  readConfig,
} from '../config.js';

/** Gives a command its options from the one declaration. Their values stay text: `config.ts` alone reads them. */
export function addConfigOptions(command: Command, name: CommandName): Command {
  for (const { name: option, placeholder, help } of optionsOf(name)) {
    command.option(`--${option} <${placeholder}>`, help);
  }
  return command;
}

/** What a command that was given its options by {@link addConfigOptions} finds there, in the environment and the file. */
export function readingOf(command: Command, name: CommandName): ConfigReading {
  const values = command.opts<Record<string, unknown>>();
  const given: Record<string, string> = {};
  for (const { name: option } of optionsOf(name)) {
    const value = values[option.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())];
    if (typeof value === 'string') given[option] = value;
  }
  return readConfig(given);
}

/**
 * The configuration for a command that was given its options by {@link addConfigOptions}.
 * @throws ConfigError with every fault, or that the data directory is something else than a directory.
 */
export function configOf(command: Command, name: CommandName): Config {
  const { config, faults, settings } = readingOf(command, name);
  if (config === undefined) throw new ConfigError(faults);
  // Whatever is done in it would fail, each command in its own words, and none would name it.
  if (fs.statSync(config.dataDir, { throwIfNoEntry: false })?.isDirectory() === false) {
    const source = settings.find((setting) => setting.name === 'data-dir')?.source ?? '--data-dir';
    throw new ConfigError([{ source, message: `${config.dataDir} is not a directory` }]);
  }
  return config;
}
