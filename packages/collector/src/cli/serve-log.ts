/** The log of `collector serve` on standard error: JSON for machines, with priorities for the journal, or for people. */
import fs from 'node:fs';
import { isatty } from 'node:tty';
import { styleText } from 'node:util';
import pino, { type Logger } from 'pino';
import { journalStream } from '../config.js';
import { type Dropped, LineWriter } from './line-writer.js';
import { legible } from './printable.js';

/** How long the end of the process waits for a reader of the log, in milliseconds. */
const LAST_LINES_MS = 500;

/** By level: syslog's number, with which systemd reads a line from a service (sd-daemon(3)), and the colour. */
const LEVELS = {
  trace: { priority: 7, colour: 'dim' },
  debug: { priority: 7, colour: 'dim' },
  info: { priority: 6, colour: 'green' },
  warn: { priority: 4, colour: 'yellow' },
  error: { priority: 3, colour: 'red' },
  fatal: { priority: 2, colour: 'red' },
} as const;

interface Line extends Record<string, unknown> {
  readonly level: keyof typeof LEVELS;
  readonly time: string;
  readonly msg: string;
}

export interface ServeLog {
  readonly log: Logger;
  /** Lines that standard error did not take. */
  readonly dropped: () => Dropped;
}

/**
 * No line waits for whoever reads standard error, nor fails (line-writer.ts).
 * @param readable for people whatever standard error is; otherwise only on a terminal.
 */
export function openServeLog(level: string, readable: boolean): ServeLog {
  const lines = new LineWriter(2, (dropped) =>
    log.warn({ dropped }, 'standard error took no lines for a while, and these were dropped'),
  );
  const shown = readable || isatty(2) ? readableLine : isJournal() ? journalLine : (json: string) => json;
  const log = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (json: string) => lines.write(shown(json)) },
  );
  process.on('exit', () => lines.flush(LAST_LINES_MS));
  return { log, dropped: () => lines.dropped };
}

/** Whether standard error is what systemd has connected to its journal, and not what somebody put in its place. */
function isJournal(): boolean {
  const stream = journalStream();
  if (stream === undefined) return false;
  const { dev, ino } = fs.fstatSync(2, { bigint: true });
  return stream === `${dev}:${ino}`;
}

function journalLine(json: string): string {
  const { level } = JSON.parse(json) as Line;
  return `<${LEVELS[level].priority}>${json}`;
}

function readableLine(json: string): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Line;
  const at = new Date(time).toLocaleTimeString('en-GB', { hour12: false });
  const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${fieldText(value)}`);
  const name = coloured(LEVELS[level].colour, level.toUpperCase().padEnd(5));
  return `${coloured('dim', at)} ${name} ${legible(msg)}${coloured('dim', rest.join(''))}\n`;
}

/** Bare where nothing in it could be taken for the next field. */
function fieldText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return legible(typeof value === 'string' && /[\s"=]/.test(value) ? JSON.stringify(text) : text);
}

/** Only on a terminal, and not with NO_COLOR. */
function coloured(colour: Parameters<typeof styleText>[0], text: string): string {
  return styleText(colour, text, { stream: process.stderr });
}
