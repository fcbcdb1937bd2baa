/** What people are told of the options: the help of a command, and the table in docs/reference. */
import type { CommandName } from './option.js';
import { domain, shown } from './option-value.js';
import { ENTRIES } from './options.js';
import { CONFIG_VARIABLE, variable } from './variable.js';

/** Names another option, and so has no place in the table. */
const CONFIG_HELP = 'JSON file with options by name, such as {"port": 9000}';

/** An option as the command line's help needs it. */
export interface OptionHelp {
  readonly name: string;
  /** What its value is called. */
  readonly placeholder: string;
  readonly help: string;
}

const PLACEHOLDERS = {
  text: 'text',
  path: 'path',
  list: 'list',
  integer: 'n',
  bytes: 'size',
  duration: 'time',
  choice: 'name',
};

/** The options of a command, `--config` first. */
export function optionsOf(command: CommandName): OptionHelp[] {
  const options = ENTRIES.filter(([, option]) => option.appliesTo.includes(command)).map(([name, option]) => {
    const choices = 'choices' in option ? `choices: ${domain(option)}; ` : '';
    const byDefault = shown(option, option.default).replaceAll('`', '');
    const help = `${option.help} (${choices}default: ${byDefault})`;
    return { name, placeholder: PLACEHOLDERS[option.type], help };
  });
  return [{ name: 'config', placeholder: 'file', help: CONFIG_HELP }, ...options];
}

/** All options as a Markdown table, for docs/reference. Ends without a line break. */
export function configTable(): string {
  const rows = ENTRIES.map(([name, option]) => {
    const accepts =
      option.type === 'choice' ? option.choices.map((choice) => `\`${choice}\``).join(', ') : domain(option);
    const byDefault = shown(option, option.default);
    const value = option.default === '' ? byDefault : `\`${byDefault}\``;
    const reload = option.reloadable === true ? 'yes' : '';
    return `| \`--${name}\` | \`${variable(name)}\` | ${value} | ${accepts} | ${reload} | ${option.help} |`;
  });
  return [
    '| Option | Environment variable | Default | Accepts | Reload | Meaning |',
    '| --- | --- | --- | --- | --- | --- |',
    `| \`--config\` | \`${CONFIG_VARIABLE}\` | | path | | ${CONFIG_HELP.replace(/\{.*\}/, '`$&`')} |`,
    ...rows,
  ].join('\n');
}
