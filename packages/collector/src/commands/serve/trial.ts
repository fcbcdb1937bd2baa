/** `collector serve --trial`: a temporary data directory, and the verdict of profile `full` on each event. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {
  didYouMean,
  ERRORS,
  EVENT_PATHS,
  type EventKind,
  type Issue,
  PROTOCOL_VERSION,
} from '@clinical-events/protocol';
import { validateEvent } from '@clinical-events/protocol/validate';
import { ConfigError } from '../../config.js';
import type { Observed } from '../../ingest/ingest.js';
import type { Fault } from '../../ledger/examine.js';
import type { Call } from '../define.js';
import type { LineWriter } from './log.js';
import { legible } from '../terminal.js';

/** How long the end waits for a reader of standard output, in milliseconds. */
const LAST_LINES_MS = 500;

/**
 * Options whose effect would outlast the trial. No value turns them off, so they are refused from every
 * source.
 */
const LASTING: readonly string[] = ['checkpoint-sink'];
/** Options that the trial sets itself, overriding environment and file. */
const OWN = ['data-dir', 'signing-keys'] as const;

const OTHER_VERSION = `      warning: /protocol_version is not ${PROTOCOL_VERSION}; any version is accepted`;

interface TrialEvent {
  readonly event_id: string;
  readonly protocol_version: string;
}

export class Trial {
  /** Configuration options set to places in its directory. */
  readonly instead: Readonly<Record<(typeof OWN)[number], string>>;
  readonly #directory: string;
  #announced = false;
  #paths: readonly string[] = Object.values(EVENT_PATHS);

  private constructor(private readonly out: LineWriter) {
    this.#directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-trial-'));
    this.instead = {
      'data-dir': this.#directory,
      'signing-keys': path.join(this.#directory, 'signing-keys'),
    };
    process.on('exit', () => this.#end());
  }

  /**
   * Creates the directory of the trial, which is removed when the process ends.
   * @throws ConfigError if an option names something that would outlast the trial.
   */
  static begin({ reading, given }: Call, out: LineWriter): Trial {
    const faults = reading()
      .settings.filter(({ name, from }) => LASTING.includes(name) && from !== 'default')
      .map(({ source }) => source);
    for (const name of OWN) if (given[name] !== undefined) faults.push(`--${name}`);
    if (faults.length > 0) {
      const message = 'cannot be combined with --trial, which keeps nothing';
      throw new ConfigError(faults.map((source) => ({ source, message })));
    }
    return new Trial(out);
  }

  /**
   * Explains what a trial is. The end of the trial is then announced too. @param more further paths that
   * accept requests.
   */
  announce(more: readonly string[] = []): void {
    this.#announced = true;
    this.#paths = [...Object.values(EVENT_PATHS), ...more];
    this.out.write(`
This is a trial. Everything sent to it is kept in ${legible(this.#directory)} and deleted when it ends.
Each event is listed here, with the faults for which it is refused, or would be under profile full.
`);
  }

  /** The observer for `Ingest.observer`, while bodies are kept. */
  observe(observed: Observed, status: number, fault: Fault | undefined): void {
    const { id, kind, body } = observed;
    if (fault !== undefined) this.out.write(refusalLines(observed, status, fault, this.#paths));
    else if (kind !== undefined && kind !== 'otlp' && body !== undefined)
      this.out.write(trialLines(id, kind, body));
  }

  #end(): void {
    fs.rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 });
    if (!this.#announced) return;
    this.out.write(`\nThe trial has ended: ${legible(this.#directory)} and everything in it is deleted.\n`);
    this.out.flush(LAST_LINES_MS);
  }
}

/**
 * The lines for an accepted event: kind, id and request id, what profile `full` requires beyond `minimum`,
 * and whether the protocol version, which no profile checks, differs. Contains no other value of the event.
 */
function trialLines(request: string, kind: EventKind, body: Uint8Array): string {
  const event = JSON.parse(Buffer.from(body).toString()) as TrialEvent;
  const issues = validateEvent(kind, 'full', event) ?? [];
  const verdict = issues.length === 0 ? 'valid under profile full too' : 'profile full would refuse it:';
  const faults = issues.map(issueLine);
  if (event.protocol_version !== PROTOCOL_VERSION) faults.push(OTHER_VERSION);
  return asLines([`201 ${kind} ${event.event_id} (request ${request}): ${verdict}`, ...faults]);
}

/** The lines for a refused request. They contain no value of the event and nothing of an unknown path. */
function refusalLines(
  { id, kind, url = '' }: Observed,
  status: number,
  fault: Fault,
  paths: readonly string[],
): string {
  const { code, message = ERRORS[code].message, details } = fault;
  const issues = (details?.['issues'] ?? []) as readonly Issue[];
  const first =
    kind === undefined
      ? `${status} (request ${id}): ${code}: no such endpoint${nearestEndpoint(url, paths)}`
      : `${status} ${kind} (request ${id}): ${code}: ${message}`;
  return asLines([first, ...issues.map(issueLine)]);
}

function nearestEndpoint(target: string, endpoints: readonly string[]): string {
  const [path = ''] = target.split('?', 1);
  return didYouMean(path, endpoints) || `; the endpoints are ${endpoints.join(', ')}`;
}

function issueLine({ pointer, rule, message }: Issue): string {
  return `      ${pointer || '/'} (${rule}): ${message}`;
}

function asLines(lines: readonly string[]): string {
  return lines.map((line) => `${legible(line)}\n`).join('');
}
