// Writes the generated pages of docs/reference. With --check it writes nothing, names the pages that differ, and ends with
// 1. The sources must be built.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { configTable, limitsTable } from '../packages/collector/dist/config.js';
import { NUMBERS } from '../packages/collector/dist/operate/numbers.js';
import { ERRORS } from '../packages/protocol/dist/index.js';
import { logLines } from './reference/log-lines.mjs';
import { modelAnswers } from './reference/model-answers.mjs';
import { recordFields } from './reference/record-fields.mjs';
import { GENERATED } from './reference/table.mjs';

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const VIEWER = path.join(ROOT, 'packages/viewer/dist/main.js');
const MAIN = path.join(ROOT, 'packages', 'collector', 'dist', 'main.js');

const configuration = () => `# Configuration

${GENERATED}

Options of \`collector serve\` (\`--config\`, \`--data-dir\` and \`--log-level\` also of the other commands). An option is set on the command line, by an environment variable, or by name in a JSON file, in this order of precedence. An unknown name is an error that suggests the nearest known one.

Sizes are written as \`64KiB\`, \`1MiB\`, \`1000000\`; times as \`500ms\`, \`10s\`, \`1m\`. Reload: a running collector adopts the new value on SIGHUP. \`collector serve --check\` reports every fault and the source of each value.

<!-- prettier-ignore -->
${configTable()}

## Limits

Tuning settings are members of the object \`limits\` in the JSON file: \`{"port": 9000, "limits": {"queue-bytes": "128MiB", "max-connections": 10000}}\`. Containers set the object with \`COLLECTOR_LIMITS='{"queue-bytes": "128MiB"}'\`; its members take precedence over those in the file. They have no command-line options.

<!-- prettier-ignore -->
${limitsTable()}
`;

const errors = () => `# Errors

${GENERATED}

Every error of the HTTP service. A code is never renamed and never changes its meaning. The body is \`{"message": …, "code": …, "details": …}\`; \`details\` is optional and never repeats a value that was sent. "Retry" says whether the same bytes may be accepted later.

<!-- prettier-ignore -->
| Code | Status | Retry | Given when |
| --- | --- | --- | --- |
${Object.entries(ERRORS)
  .sort(([, a], [, b]) => a.status - b.status)
  .map(
    ([code, { status, retry, retryAfter, when }]) =>
      `| \`${code}\` | ${status} | ${retry ? (retryAfter ? 'after `Retry-After` seconds' : 'yes') : 'no'} | ${when} |`,
  )
  .join('\n')}
`;

const metrics = () => `# Metrics

${GENERATED}

\`GET /metrics\` on the [management port](../guide/operate.md#watching-it), in the Prometheus text format, or in OpenMetrics on request. The default metrics of \`prom-client\` for the process and Node.js are included. No label holds content of an event.

<!-- prettier-ignore -->
| Name | Type | Meaning |
| --- | --- | --- |
${NUMBERS.map(({ name, type, help }) => `| \`${name}\` | ${type} | ${help} |`).join('\n')}
`;

const help = (...words) => printed(MAIN, 'help', ...words);

/** The standard output of a program of this checkout. */
function printed(main, ...words) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], {
    cwd: ROOT,
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  });
  if (status !== 0) throw new Error(`${main} ${words.join(' ')} ended with ${status}: ${stderr}`);
  return stdout.replaceAll('./collector ', 'collector ').trimEnd();
}

/** The names of the commands that a help text lists. */
function commandsIn(text) {
  const [, list = ''] = /^Commands:\n((?: {2}.*\n?)+)/m.exec(text) ?? [];
  return [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name).filter((name) => name !== 'help');
}

/** An option of a help text, with the lines that continue it. */
const OPTION = /^ {2}-.*\n(?: {8}.*\n)*/gm;
const COMMON = ['--config', '--data-dir', '--store', '--log-level', '--help'];
const nameOf = (option) => /--[a-z-]+/.exec(option)?.[0];

/** A help text in which the common options are named and not described again. */
function withoutCommon(text) {
  const common = (text.match(OPTION) ?? []).map(nameOf).filter((name) => COMMON.includes(name));
  const short = text.replaceAll(OPTION, (option) => (COMMON.includes(nameOf(option)) ? '' : option));
  const names = common.filter((name) => name !== '--help');
  const line = names.length > 0 ? `Common options: ${names.join(', ')}\n` : '';
  return short
    .replace(/^Options:\n(?! {2}-)\n?/m, '')
    .replace(/^(?=(?:Commands|Examples|Exit codes):)|(?![^])/m, `${line}\n`);
}

function sections(words, level) {
  const text = help(...words);
  const heading = `${'#'.repeat(level)} ${['collector', ...words].join(' ')}`;
  const shown = words[0] === 'serve' || words.length === 0 ? text : withoutCommon(`${text}\n`).trimEnd();
  const own = `${heading}\n\n\`\`\`text\n${shown.replaceAll(/\n{3,}/g, '\n\n')}\n\`\`\`\n`;
  return [own, ...commandsIn(text).flatMap((name) => sections([...words, name], level + 1))];
}

const cli = () => `# Commands

${GENERATED}

The output of \`collector help\`. [Troubleshoot](../guide/troubleshoot.md#exit-codes) explains the exit codes.

## Common options

Most commands have these options, and every command has \`--help\`:

\`\`\`text
${(help('events').match(OPTION) ?? [])
  .filter((option) => COMMON.includes(nameOf(option)))
  .join('')
  .trimEnd()}
\`\`\`

${sections([], 2).join('\n')}
## collector-viewer

\`\`\`text
${printed(VIEWER, '--help')}
\`\`\`
`;

const PAGES = {
  ...{ configuration, errors, metrics, cli },
  'log-lines': logLines,
  'model-answers': modelAnswers,
  'record-fields': recordFields,
};

const differing = Object.entries(PAGES).filter(([name, page]) => {
  const file = path.join(ROOT, 'docs', 'reference', `${name}.md`);
  const text = page();
  if (!process.argv.includes('--check')) {
    writeFileSync(file, text);
    return false;
  }
  return readFileSync(file, 'utf8') !== text;
});
for (const [name] of differing) {
  process.stderr.write(`docs/reference/${name}.md differs from the code: run node scripts/reference.mjs\n`);
}
if (differing.length > 0) process.exitCode = 1;
