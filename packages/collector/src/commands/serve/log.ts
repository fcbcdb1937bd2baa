/** The log of `collector serve` on standard error: JSON for machines, with priorities for the journal, or for people. */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { styleText } from 'node:util';
import pino, { type Logger } from 'pino';
import { journalStream } from '../../config.js';
import { systemCode } from '../../system-code.js';
import { legible } from '../terminal.js';

/*
 * Writes to standard output or standard error without ever waiting for its reader. What cannot be written at once
 * waits in bounded memory; what does not fit is dropped and counted. Nothing here throws.
 *
 * Invariant: what was taken leaves in order, and whole unless the process ends.
 */

const MAX_WAITING_BYTES = 1 << 20;
/** After a reader that was behind, in milliseconds. */
const BEHIND_MS = 20;
/** After an error, such as a full disk or a reader that is gone, in milliseconds. */
const ERROR_MS = 1000;

/** What was dropped since the process began. */
export interface Dropped {
  readonly lines: number;
  /** When the last one was, in milliseconds since 1970 UTC; undefined when none was. */
  readonly at: number | undefined;
}

export class LineWriter {
  readonly #descriptor: number;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #retry: NodeJS.Timeout | undefined;
  #isBehind = false;
  #dropped = 0;
  #droppedAt: number | undefined;
  #unreported = 0;

  /** @param onRecovered called with the number of dropped lines once everything that waited is written. */
  constructor(
    descriptor: 1 | 2,
    private readonly onRecovered: (dropped: number) => void = () => undefined,
  ) {
    this.#descriptor = withoutWaiting(descriptor);
  }

  get dropped(): Dropped {
    return { lines: this.#dropped, at: this.#droppedAt };
  }

  /** Takes lines, or drops them. Returns at once. */
  write(lines: string): void {
    const bytes = Buffer.from(lines);
    if (this.#waitingBytes + bytes.length > MAX_WAITING_BYTES) {
      this.#dropped++;
      this.#unreported++;
      this.#droppedAt = Date.now();
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#retry === undefined) this.#drain();
  }

  /**
   * Writes lines that are worth nothing later: what the reader has not taken in time is withdrawn.
   * @returns whether all was taken, without another turn of the event loop when it could be at once.
   */
  async say(lines: string, withinMs: number): Promise<boolean> {
    this.write(lines);
    const deadline = performance.now() + withinMs;
    while (this.#waiting.length > 0 && this.#isBehind && performance.now() < deadline) await sleep(BEHIND_MS);
    if (this.#waiting.length === 0) return true;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    return false;
  }

  /** Blocks until all is written, a write fails or the time, in milliseconds, is over: for the end of a process. */
  flush(withinMs: number): void {
    const deadline = performance.now() + withinMs;
    for (;;) {
      this.#drain();
      if (this.#waiting.length === 0 || !this.#isBehind || performance.now() >= deadline) return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BEHIND_MS);
    }
  }

  #drain(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    try {
      for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
        const written = fs.writeSync(this.#descriptor, next);
        this.#waitingBytes -= written;
        if (written === next.length) this.#waiting.shift();
        else this.#waiting[0] = next.subarray(written);
      }
    } catch (error) {
      this.#isBehind = systemCode(error) === 'EAGAIN';
      this.#retry = setTimeout(() => this.#drain(), this.#isBehind ? BEHIND_MS : ERROR_MS).unref();
      return;
    }
    const unreported = this.#unreported;
    this.#unreported = 0;
    if (unreported > 0) this.onRecovered(unreported);
  }
}

/**
 * A descriptor on which a write does not wait for a reader. Node has made a pipe or a socket such a one by the time
 * that process.stdout and process.stderr were used (program.ts), but a terminal, which Ctrl-S stops, one that waits:
 * it is opened again, so that no one else's is changed. A hole: a file on a mount that hangs holds the process up.
 */
function withoutWaiting(descriptor: 1 | 2): number {
  if (!isatty(descriptor)) return descriptor;
  try {
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;
    return fs.openSync(`/proc/self/fd/${descriptor}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return descriptor;
  }
}

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
 * No line waits for the reader of standard error, and none fails.
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

/** Whether standard error is what systemd has connected to its journal, and not what someone put in its place. */
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
