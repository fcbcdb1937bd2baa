/** `collector validate`: looks at NDJSON files as a collector would, and stores nothing. */
import { Command } from 'commander';
import type { Config } from '../config.js';
import type { LineFault, Offered } from '../importing/offered-line.js';
import { examine } from '../ledger/examine.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { addLineOptions, FORMS, LineFiles, type LineOptions, type ReadLine } from './line-files.js';
import { addConfigOptions, configOf } from './arguments.js';

const EXAMPLES = `
${FORMS}

Examples:
  $ collector validate events.ndjson --profile full
  $ collector validate outcomes.ndjson --kind outcome --rejects faults.ndjson
  $ collector validate legacy.ndjson --kind outcome --fix timestamps=Europe/Berlin

Each event is examined as a collector with these settings would. Whether the log has it already, or has another with its
id, only "collector import" finds out. Exit codes: 0 every event passes, 1 some do not, 2 the command line is wrong, 6
there is no such file.`;

/** So many are printed. */
const FIRST_FAULTS = 10;

export function command(): Command {
  const validate = new Command('validate').description(
    'Check events in NDJSON files as a collector would, without one.',
  );
  addLineOptions(validate).option('--rejects <file>', 'where lines that do not pass go (default: nowhere)');
  return addConfigOptions(validate, 'validate')
    .addHelpText('after', EXAMPLES)
    .action(async (files: string[], options: LineOptions, self: Command) => {
      process.exitCode = await validateFiles(files, options, configOf(self, 'validate'));
    });
}

async function validateFiles(
  files: readonly string[],
  options: LineOptions,
  config: Config,
): Promise<ExitCode> {
  const lines = new LineFiles(files, options, { rejects: options.rejects });
  const first: string[] = [];
  try {
    for await (const read of lines.read()) {
      for (const line of read) {
        const fault = 'code' in line.offered ? line.offered : faultOf(line.offered, config);
        if (fault === undefined) lines.passed(line);
        else {
          lines.refuse(line, fault);
          if (first.length < FIRST_FAULTS) first.push(inWords(line, fault));
        }
      }
    }
  } finally {
    lines.close();
  }
  process.stdout.write(
    options.json
      ? lines.asJson('passed', { profile: config.profile })
      : lines.asText(`valid under profile ${config.profile}`) + first.join(''),
  );
  return lines.refused.size > 0 ? EXIT.failure : EXIT.ok;
}

function faultOf({ body, kind, eventId }: Offered, config: Config): LineFault | undefined {
  const { maxBodyBytes: limit, maxNestingDepth, profile } = config;
  if (body.length > limit) return { code: 'body_too_large', details: { bytes: body.length, limit }, eventId };
  const examined = examine(body, kind, profile, maxNestingDepth);
  return 'code' in examined ? { ...examined, eventId } : undefined;
}

/** Without a value of the event. */
function inWords({ tally, number }: ReadLine, { code, details, message }: LineFault): string {
  const issues = (details?.['issues'] ?? []) as readonly { pointer: string; message: string }[];
  const [issue] = issues;
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : '';
  const said = issue === undefined ? message : `${issue.pointer || '/'} ${issue.message}${more}`;
  const why = said === undefined ? '' : `: ${said}`;
  return `${tally.file}:${number}: ${code}${why}\n`;
}
