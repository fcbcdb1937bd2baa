// Writes the pages of docs/reference that follow from the code: configuration, errors, commands, metrics. With --check
// it writes nothing, names the pages that differ, and ends with 1. The sources have to be built.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { configTable, limitsTable } from '../packages/collector/dist/config.js';
import { NUMBERS } from '../packages/collector/dist/operate/numbers.js';
import { ERRORS } from '../packages/protocol/dist/index.js';

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const MAIN = path.join(ROOT, 'packages', 'collector', 'dist', 'main.js');
const GENERATED = '<!-- Written by scripts/reference.mjs: change the code, then run it. -->';

const configuration = () => `# Configuration

${GENERATED}

Options of \`collector serve\` (\`--config\`, \`--data-dir\` and \`--log-level\` also of the other commands): on the command line, as environment variables, or by name in a JSON file. The first of these that sets an option counts. An unknown name in the environment or the file is refused, with the nearest known one; so is an unknown option, before anything else is looked at.

Sizes are \`64KiB\`, \`1MiB\`, \`1000000\`; times \`500ms\`, \`10s\`, \`1m\`. Reload: a running collector takes the new value on SIGHUP. \`collector serve --check\` reports every fault, and where each value comes from.

<!-- prettier-ignore -->
${configTable()}

## Limits

Settings that only tune the collector are members of one object, \`limits\`, in the JSON file: \`{"port": 9000, "limits": {"queue-bytes": "128MiB", "max-connections": 10000}}\`. Containers give that object as \`COLLECTOR_LIMITS='{"queue-bytes": "128MiB"}'\`, whose members take precedence over those in the file. No command has options for them.

<!-- prettier-ignore -->
${limitsTable()}
`;

const errors = () => `# Errors

${GENERATED}

Every failure that the HTTP service can answer with. A code is never renamed and never changes its meaning. The body is \`{"message": …, "code": …, "details": …}\`; \`details\` is there where it helps, and never repeats a value that was sent. "Retry" says whether the same bytes may be accepted later.

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

\`GET /metrics\` on the [management port](../guide/operate.md#watching-it), in the Prometheus text format, or OpenMetrics if asked for. The default metrics of \`prom-client\` for the process and Node.js come with them. No label holds anything of an event.

<!-- prettier-ignore -->
| Name | Type | Meaning |
| --- | --- | --- |
${NUMBERS.map(({ name, type, help }) => `| \`${name}\` | ${type} | ${help} |`).join('\n')}
`;

function help(...words) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'help', ...words], {
    cwd: ROOT,
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  });
  if (status !== 0) throw new Error(`collector help ${words.join(' ')} ended with ${status}: ${stderr}`);
  return stdout.replaceAll('./collector ', 'collector ').trimEnd();
}

/** The names of the commands that a help text lists. */
function commandsIn(text) {
  const [, list = ''] = /^Commands:\n((?: {2}.*\n?)+)/m.exec(text) ?? [];
  return [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name).filter((name) => name !== 'help');
}

function sections(words, level) {
  const text = help(...words);
  const heading = `${'#'.repeat(level)} ${['collector', ...words].join(' ')}`;
  const own = `${heading}\n\n\`\`\`text\n${text}\n\`\`\`\n`;
  return [own, ...commandsIn(text).flatMap((name) => sections([...words, name], level + 1))];
}

const cli = () => `# Commands

${GENERATED}

What \`collector help\` prints. [Troubleshoot](../guide/troubleshoot.md#exit-codes) explains the exit codes.

${sections([], 2).join('\n')}`;

const PAGES = { configuration, errors, metrics, cli };

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
  process.stderr.write(
    `docs/reference/${name}.md is not what the code says: run node scripts/reference.mjs\n`,
  );
}
if (differing.length > 0) process.exitCode = 1;
