/** The texts about the options: the help of a command, and the table in docs/reference. */
import { CONFIG_VARIABLE, domain, isLimit, LIMITS, shown, variable, } from './option.js';
import { ENTRIES, keyOf } from './options.js';
/** Names another option, and so has no place in the table. */
const CONFIG_HELP = 'JSON file with options by name, such as {"port": 9000}';
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
export function optionsOf(command) {
    const options = ENTRIES.filter(([, option]) => option.appliesTo?.includes(command)).map(([name, option]) => {
        const choices = 'choices' in option ? `choices: ${domain(option)}; ` : '';
        const byDefault = shown(option, option.default).replaceAll('`', '');
        const help = `${option.help} (${choices}default: ${byDefault})`;
        return { name, placeholder: PLACEHOLDERS[option.type], help };
    });
    return [{ name: 'config', placeholder: 'file', help: CONFIG_HELP }, ...options];
}
/** The options of the command line as a Markdown table, for docs/reference. Ends without a line break. */
export function configTable() {
    const rows = ENTRIES.filter(([name]) => !isLimit(name)).map(([name, option]) => `| \`--${name}\` | \`${variable(name)}\` |${described(option)}`);
    return [
        '| Option | Environment variable | Default | Accepts | Reload | Meaning |',
        '| --- | --- | --- | --- | --- | --- |',
        `| \`--config\` | \`${CONFIG_VARIABLE}\` | | path | | ${CONFIG_HELP.replace(/\{.*\}/, '`$&`')} |`,
        ...rows,
    ].join('\n');
}
/** The members of `limits` as a Markdown table, for docs/reference. Ends without a line break. */
export function limitsTable() {
    const rows = ENTRIES.filter(([name]) => isLimit(name)).map(([name, option]) => `| \`${name.slice(LIMITS.length)}\` |${described(option)}`);
    return ['| Name | Default | Accepts | Reload | Meaning |', '| --- | --- | --- | --- | --- |', ...rows].join('\n');
}
/** The cells from its default on. */
function described(option) {
    const accepts = option.type === 'choice' ? option.choices.map((choice) => `\`${choice}\``).join(', ') : domain(option);
    const byDefault = shown(option, option.default);
    const value = option.default === '' ? byDefault : `\`${byDefault}\``;
    const reload = option.reloadable === true ? 'yes' : '';
    return ` ${value} | ${accepts} | ${reload} | ${option.help} |`;
}
/** Sound when both configurations are: no option that can be reloaded is bound to one that cannot. */
export function reloaded(running, read) {
    const changed = ENTRIES.filter(([name]) => {
        const key = keyOf(name);
        return running[key] !== read[key];
    });
    const [taken, waiting] = [true, false].map((wanted) => changed.filter(([, option]) => (option.reloadable === true) === wanted).map(([name]) => name));
    const values = taken.map((name) => [keyOf(name), read[keyOf(name)]]);
    const config = { ...running, ...Object.fromEntries(values) };
    return { config: Object.freeze(config), taken, waiting };
}
//# sourceMappingURL=reference.js.map