/** `collector names`: lists the models, applications, users and organisations of a log with their runs. */
import type { Catalogue, NamedRuns, NameKind } from '../catalogue/catalogue.js';
import type { Config } from '../config.js';
import { counted } from '../quantity.js';
import { wordFrom } from './arguments.js';
import { readRuns, type RunReading, unknownNames } from './catalogue.js';
import { defineCommand } from './define.js';
import {
  filterOptions,
  type AskedRuns,
  filterFrom,
  type FilterOptions,
  limitFrom,
  loggedFilter,
} from './run-filter.js';
import { alignedTable, asJsonLines, asTable, type Framing, giveRows, legible } from './terminal.js';
import { printRemarks } from './typed.js';

interface Listed {
  readonly kind: NameKind;
  readonly headings: readonly string[];
  /** Members as in `runs --json`. */
  readonly members: readonly string[];
  readonly thing: string;
}

/** The lists, by the argument that selects them. */
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
/** The kinds of the overview. */
const OVERVIEW: readonly NameKind[] = ['models', 'apps', 'users', 'organisations'];
const SHOWN_OF_EACH = 3;
const NONE = '-';
export interface NamesOptions extends FilterOptions {
  readonly json?: true;
}

const EXAMPLES = `  $ collector names
  $ collector names models
  $ collector names users --model sepsis-abstractor --outcome contradicted
  $ collector names apps --since 2026-01-01 --until 2026-02-01 --clock sender --json

Without an argument it prints, for each kind, the number of names and those with the most runs. Names with the
most runs come first. Use a name with "runs" exactly as shown: --model MODEL@VERSION, --app, --user,
--organisation. Targets, such as patients, are not listed.

The answer comes from the catalogue and covers every event stored when the command began. Users are persons,
so the call and its filter are logged in access.log; of --target and --user only that they were given.`;

export const command = defineCommand<NamesOptions>({
  name: 'names',
  description: 'List the models, applications, users or organisations of runs, with the number of runs.',
  arguments: { '[kind]': `${Object.keys(LISTED).join(', ')} (default: an overview)` },
  options: { ...filterOptions('names'), '--json': 'print one JSON object a line' },
  configuration: 'runs',
  examples: EXAMPLES,
  // The arguments may name a person, and every user of the host can read them.
  hidesArguments: true,
  async run({ options, config }, kind?: string) {
    if (kind !== undefined) wordFrom('kind', kind, Object.keys(LISTED));
    const filter = filterFrom(options, Date.now());
    await new Naming(config(), { kind, filter, limit: limitFrom(options.limit, 'names') }, options).run();
  },
});

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
    printRemarks(lines, dataDir);
  }

  /** @returns remarks about the list. */
  async #answer({ catalogue, givenOut, signal }: RunReading): Promise<string[]> {
    const { kind, filter } = this.request;
    const listed = LISTED[kind ?? ''];
    const give = <Row>(rows: Iterable<Row>, framing: Framing<Row>, names: (row: Row) => number = () => 1) =>
      giveRows(rows, {
        ...{ framing, signal },
        onBlock: (block) => {
          for (const row of block) this.#shown += names(row);
          givenOut.done = { names: this.#shown };
        },
      });
    let remark: string;
    if (listed === undefined) {
      remark = 'list one kind with: collector names users';
      await give(
        this.#overview(catalogue),
        this.options.json ? OVERVIEW_AS_JSON : OVERVIEW_AS_TABLE,
        (row) => row.most.length,
      );
    } else {
      let of = 0;
      const counting = function* (all: Iterable<NamedRuns>) {
        for (const named of all) {
          ({ of } = named);
          yield named;
        }
      };
      const { limit } = this.request;
      const all = catalogue.names(listed.kind, { ...filter, ...(limit < Infinity && { limit }) });
      await give(
        counting(all),
        this.options.json ? asJsonLines((named) => objectOf(listed.members, named)) : tableOf(listed),
      );
      const total = counted(of, listed.thing);
      remark =
        this.#shown === of ? total : `the ${this.#shown} with the most runs of ${total}; all: --limit all`;
    }
    if (this.#shown > 0) return [remark];
    return ['no run matches', ...unknownNames(catalogue, { ...filter, model: this.options.model })];
  }

  #overview(catalogue: Catalogue): Overview[] {
    return OVERVIEW.map((kind) => {
      const most = [...catalogue.names(kind, { ...this.request.filter, limit: SHOWN_OF_EACH })];
      return { kind, count: most[0]?.of ?? 0, most };
    });
  }
}

interface Overview {
  readonly kind: NameKind;
  readonly count: number;
  readonly most: readonly NamedRuns[];
}

const OVERVIEW_AS_JSON = asJsonLines(({ kind, count, most }: Overview) => {
  const members = (LISTED[kind]?.members ?? []).slice(0, 1);
  return { kind, count, most_runs: most.map((named) => objectOf(members, named)) };
});

const OVERVIEW_AS_TABLE = asTable((found: readonly Overview[]) => {
  if (found.every(({ count }) => count === 0)) return '';
  const rows = found.map(({ kind, count, most }) => {
    const shown = most.map(({ names: [name], runs }) => `${legible(name ?? '')} (${runs})`);
    return [kind, String(count), shown.length === 0 ? NONE : shown.join(', ')];
  });
  return alignedTable([['KIND', 'NAMES', 'MOST RUNS'], ...rows], process.stdout);
});

function tableOf({ headings }: Listed): Framing<NamedRuns> {
  return asTable((found) => {
    const rows = found.map(({ names, runs }) => [
      ...names.map((name) => (name === null ? NONE : legible(name))),
      String(runs),
    ]);
    return alignedTable([[...headings, 'RUNS'], ...rows]);
  });
}

function objectOf(members: readonly string[], { names, runs }: NamedRuns): Readonly<Record<string, unknown>> {
  return { ...Object.fromEntries(members.map((member, i) => [member, names[i] ?? null])), runs };
}
