/** `collector names`: which models, applications, users and organisations a log has, and how many runs each. */
import path from 'node:path';
import { Command } from 'commander';
import type { Catalogue, NamedRuns, NameKind } from '../catalogue/catalogue.js';
import type { Config } from '../config.js';
import { counted } from '../quantity.js';
import { addConfigOptions, configOf, wordFrom } from './arguments.js';
import { readRuns, type RunReading, unknownNames } from './catalogue.js';
import {
  addFilterOptions,
  type AskedRuns,
  filterFrom,
  type FilterOptions,
  limitFrom,
  loggedFilter,
} from './run-filter.js';
import type { StandardOutput } from './standard-output.js';
import { alignedTable, legible, printableJson } from './terminal.js';
import { typed } from './typed.js';

interface Listed {
  readonly kind: NameKind;
  readonly headings: readonly string[];
  /** As `runs --json` has them. */
  readonly members: readonly string[];
  readonly thing: string;
}

/** As they are typed. */
const LISTED: Readonly<Record<string, Listed>> = {
  models: {
    ...{ kind: 'versions', thing: 'model version', headings: ['MODEL', 'VERSION'] },
    members: ['model_id', 'model_version'],
  },
  apps: { kind: 'apps', thing: 'application', headings: ['APPLICATION'], members: ['app_name'] },
  users: { kind: 'users', thing: 'user', headings: ['USER'], members: ['caller_id'] },
  organisations: {
    ...{ kind: 'organisations', thing: 'organisation', headings: ['ORGANISATION'] },
    members: ['organisation'],
  },
};
/** Of each kind where none is asked for. */
const OVERVIEW: readonly NameKind[] = ['models', 'apps', 'users', 'organisations'];
const SHOWN_OF_EACH = 3;
const NONE = '-';
/** Rows that are laid out together. */
const BLOCK = 1000;

export interface NamesOptions extends FilterOptions {
  readonly json?: true;
}

const EXAMPLES = `
Examples:
  $ collector names
  $ collector names models
  $ collector names users --model sepsis-abstractor --outcome contradicted
  $ collector names apps --since 2026-01-01 --until 2026-02-01 --clock sender --json

Without an argument it says of each kind how many there are, and those with the most runs. The names of most runs come
first. A name is given to "runs" as it stands here: --model MODEL@VERSION, --app, --user, --organisation. Targets, such
as patients, are not listed.

It is answered from the catalogue, and covers every event that was stored when it began. Users are persons: that it ran
and what it was asked for is logged in access.log; of --target and --user only that they were given.`;

export function command(): Command {
  const names = new Command('names')
    .description('List the models, applications, users or organisations that runs name, and how many runs.')
    .argument('[kind]', `${Object.keys(LISTED).join(', ')} (default: an overview)`);
  return addConfigOptions(addFilterOptions(names, 'names'), 'runs')
    .option('--json', 'print one JSON object a line')
    .addHelpText('after', EXAMPLES)
    .action(async (kind: string | undefined, options: NamesOptions, self: Command) => {
      // The arguments may name a person all the same, and every user of the host can read them.
      process.title = 'collector names';
      const config = configOf(self, 'runs');
      if (kind !== undefined) wordFrom('kind', kind, Object.keys(LISTED));
      const filter = filterFrom(options, Date.now());
      await new Naming(config, { kind, filter, limit: limitFrom(options.limit, 'names') }, options).run();
    });
}

interface NamesRequest {
  readonly kind: string | undefined;
  readonly filter: AskedRuns;
  /** Infinity for all. */
  readonly limit: number;
}

class Naming {
  #shown = 0;

  constructor(
    private readonly config: Config,
    private readonly request: NamesRequest,
    private readonly options: NamesOptions,
  ) {}

  async run(): Promise<void> {
    const { dataDir } = this.config;
    const filter = { kind: this.request.kind, ...loggedFilter(this.options) };
    const logAs = { command: 'names', filter };
    const lines = await readRuns({ dataDir, logAs, quiet: !process.stderr.isTTY }, (reading) =>
      this.#answer(reading),
    );
    process.stderr.write(lines.map((line) => `collector: ${typed(line, path.resolve(dataDir))}\n`).join(''));
  }

  /** @returns remarks on the list. */
  async #answer({ catalogue, givenOut, output }: RunReading): Promise<string[]> {
    const { kind, filter } = this.request;
    const listed = LISTED[kind ?? ''];
    const lines =
      listed === undefined
        ? await this.#overview(catalogue, output)
        : await this.#list(catalogue, listed, output);
    givenOut.done = { names: this.#shown };
    if (this.#shown > 0) return lines;
    return ['no run matches', ...unknownNames(catalogue, { ...filter, model: this.options.model })];
  }

  async #list(catalogue: Catalogue, listed: Listed, output: StandardOutput): Promise<string[]> {
    const { filter, limit } = this.request;
    let block: NamedRuns[] = [];
    let of = 0;
    const show = async () => {
      const text = this.#textOf(block, listed, this.#shown === 0);
      this.#shown += block.length;
      block = [];
      await output.write(text);
    };
    for (const named of catalogue.names(listed.kind, { ...filter, ...(limit < Infinity && { limit }) })) {
      of = named.of;
      if (block.push(named) === BLOCK) await show();
    }
    if (block.length > 0) await show();
    const all = counted(of, listed.thing);
    return [this.#shown === of ? all : `the ${this.#shown} with the most runs of ${all}; all: --limit all`];
  }

  #textOf(block: readonly NamedRuns[], { headings, members }: Listed, isFirst: boolean): string {
    if (this.options.json) return block.map((named) => jsonLine(objectOf(members, named))).join('');
    const rows = block.map(({ names, runs }) => [
      ...names.map((name) => (name === null ? NONE : legible(name))),
      String(runs),
    ]);
    const text = alignedTable([[...headings, 'RUNS'], ...rows]);
    return isFirst ? text : text.slice(text.indexOf('\n') + 1);
  }

  async #overview(catalogue: Catalogue, output: StandardOutput): Promise<string[]> {
    const { filter } = this.request;
    const found = OVERVIEW.map((kind) => {
      const most = [...catalogue.names(kind, { ...filter, limit: SHOWN_OF_EACH })];
      return { kind, count: most[0]?.of ?? 0, most };
    });
    this.#shown = found.reduce((sum, { most }) => sum + most.length, 0);
    if (this.options.json) {
      const lines = found.map(({ kind, count, most }) => {
        const members = (LISTED[kind]?.members ?? []).slice(0, 1);
        return jsonLine({ kind, count, most_runs: most.map((named) => objectOf(members, named)) });
      });
      await output.write(lines.join(''));
      return [];
    }
    const rows = found.map(({ kind, count, most }) => {
      const said = most.map(({ names: [name], runs }) => `${legible(name ?? '')} (${runs})`);
      return [kind, String(count), said.length === 0 ? NONE : said.join(', ')];
    });
    if (this.#shown > 0)
      await output.write(alignedTable([['KIND', 'NAMES', 'MOST RUNS'], ...rows], process.stdout));
    return ['to list one kind: collector names users'];
  }
}

function objectOf(members: readonly string[], { names, runs }: NamedRuns): Readonly<Record<string, unknown>> {
  return { ...Object.fromEntries(members.map((member, i) => [member, names[i] ?? null])), runs };
}

function jsonLine(value: object): string {
  return `${printableJson(JSON.stringify(value))}\n`;
}
