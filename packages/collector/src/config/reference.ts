/** Texts about the options: the help of a command, and the table in docs/reference. */
import {
  CONFIG_VARIABLE,
  type CommandName,
  domain,
  isLimit,
  LIMITS,
  type Option,
  shown,
  variable,
} from './option.js';
import { type Config, ENTRIES, keyOf } from './options.js';

/** `--config` is not in the table of options, since it names the file. */
const CONFIG_HELP = 'JSON file with options by name, such as {"port": 9000}';

/** An option in the help of a command. */
export interface OptionHelp {
  readonly name: string;
  /** The name of its value. */
  readonly placeholder: string;
  readonly help: string;
}

const PLACEHOLDERS = {
  text: 'text',
  path: 'path',
  place: 'place',
  list: 'list',
  integer: 'n',
  bytes: 'size',
  duration: 'time',
  choice: 'name',
};

/** The options of a command, `--config` first. */
export function optionsOf(command: CommandName): OptionHelp[] {
  const options = ENTRIES.filter(([, option]) => option.appliesTo?.includes(command)).map(
    ([name, option]) => {
      const choices = 'choices' in option ? `choices: ${domain(option)}; ` : '';
      const byDefault = shown(option, option.default).replaceAll('`', '');
      const help = `${option.help} (${choices}default: ${byDefault})`;
      return { name, placeholder: PLACEHOLDERS[option.type], help };
    },
  );
  return [{ name: 'config', placeholder: 'file', help: CONFIG_HELP }, ...options];
}

/** The options of the command line as a Markdown table, for docs/reference. Ends without a line break. */
export function configTable(): string {
  const rows = ENTRIES.filter(([name]) => !isLimit(name)).map(
    ([name, option]) => `| \`--${name}\` | \`${variable(name)}\` |${described(option)}`,
  );
  return [
    '| Option | Environment variable | Default | Accepts | Reload | Meaning |',
    '| --- | --- | --- | --- | --- | --- |',
    `| \`--config\` | \`${CONFIG_VARIABLE}\` | | path | | ${CONFIG_HELP.replace(/\{.*\}/, '`$&`')} |`,
    ...rows,
  ].join('\n');
}

/** The members of `limits` as a Markdown table, for docs/reference. Ends without a line break. */
export function limitsTable(): string {
  const rows = ENTRIES.filter(([name]) => isLimit(name)).map(
    ([name, option]) => `| \`${name.slice(LIMITS.length)}\` |${described(option)}`,
  );
  return ['| Name | Default | Accepts | Reload | Meaning |', '| --- | --- | --- | --- | --- |', ...rows].join(
    '\n',
  );
}

/** The cells of a row, from the default on. */
function described(option: Option): string {
  const accepts =
    option.type === 'choice' ? option.choices.map((choice) => `\`${choice}\``).join(', ') : domain(option);
  const byDefault = shown(option, option.default);
  const value = option.default === '' ? byDefault : `\`${byDefault}\``;
  const reload = option.reloadable === true ? 'yes' : '';
  return ` ${value} | ${accepts} | ${reload} | ${option.help} |`;
}

/* Reloading the configuration. */

/**
 * The changes in a configuration that was read again, and the part of them that a running collector applies.
 */
export interface Reloaded {
  /** The running configuration with the new values of all reloadable options. */
  readonly config: Config;
  /** Reloadable options that changed. */
  readonly taken: readonly string[];
  /** Changed options that need a restart. */
  readonly waiting: readonly string[];
}

/**
 * The result is valid if both configurations are: no rule connects a reloadable option with one that is not.
 */
export function reloaded(running: Config, read: Config): Reloaded {
  const changed = ENTRIES.filter(([name]) => {
    const key = keyOf(name);
    return running[key] !== read[key];
  });
  const [taken, waiting] = [true, false].map((wanted) =>
    changed.filter(([, option]) => (option.reloadable === true) === wanted).map(([name]) => name),
  ) as [string[], string[]];
  const values = taken.map((name) => [keyOf(name), read[keyOf(name)]]);
  const config = { ...running, ...Object.fromEntries(values) } as Config;
  return { config: Object.freeze(config), taken, waiting };
}
