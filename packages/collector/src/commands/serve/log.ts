/**
 * The log of `collector serve` on standard error: JSON, JSON with priorities for the journal, or readable
 * text.
 */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { styleText } from 'node:util';
import pino, { type Logger } from 'pino';
import { journalStream } from '../../config.js';
import { systemCode } from '../../system-code.js';
import { legible } from '../terminal.js';

/*
 * Writes to standard output or standard error without waiting for the reader. Output that cannot be written
 * immediately waits in bounded memory; what does not fit is dropped and counted. Nothing here throws.
 *
 * Invariant: accepted output is written in order, and completely unless the process ends.
 */

const MAX_WAITING_BYTES = 1 << 20;
/** Delay before a retry if the reader is slow, in milliseconds. */
const BEHIND_MS = 20;
/** Delay after an error, such as a full disk or a closed pipe, in milliseconds. */
const ERROR_MS = 1000;

/** Lines dropped since the process started. */
export interface Dropped {
  readonly lines: number;
  /** Time of the last one, in milliseconds since 1970 UTC; undefined if there is none. */
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

  /** @param onRecovered called with the number of dropped lines once the backlog is written. */
  constructor(
    descriptor: 1 | 2,
    private readonly onRecovered: (dropped: number) => void = () => undefined,
  ) {
    this.#descriptor = withoutWaiting(descriptor);
  }

  get dropped(): Dropped {
    return { lines: this.#dropped, at: this.#droppedAt };
  }

  /** Accepts or drops lines, without blocking. */
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
   * Writes lines that have no value later: what the reader has not accepted in time is withdrawn.
   * @returns whether everything was accepted; resolves within the same turn of the event loop if possible.
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

  /**
   * Blocks until everything is written, a write fails or the time in milliseconds is over; for process exit.
   */
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
 * A descriptor whose writes do not wait for a reader. Node makes pipes and sockets non-blocking when
 * process.stdout and process.stderr are used (program.ts), but terminals blocking; Ctrl-S stops a terminal. A
 * terminal is therefore opened again, so that other processes keep theirs. Not covered: a file on a hanging
 * mount blocks the process.
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

/** How long process exit waits for a reader of the log, in milliseconds. */
const LAST_LINES_MS = 500;

/** The syslog priority that systemd reads from a line (sd-daemon(3)), and the colour, by level. */
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
  /** Lines that standard error did not accept. */
  readonly dropped: () => Dropped;
}

/**
 * Opens the log. Logging never waits for the reader of standard error and never throws.
 * @param readable forces readable text; otherwise it is used only on a terminal.
 */
export function openServeLog(level: string, readable: boolean): ServeLog {
  const lines = new LineWriter(2, (dropped) =>
    log.warn({ dropped }, 'standard error accepted no lines for a while, and some were dropped'),
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

/** Whether standard error is connected to systemd's journal, and not redirected. */
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

/** Quoted if it could be mistaken for another field. */
function fieldText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return legible(typeof value === 'string' && /[\s"=]/.test(value) ? JSON.stringify(text) : text);
}

/** Coloured only on a terminal, and not with NO_COLOR. */
function coloured(colour: Parameters<typeof styleText>[0], text: string): string {
  return styleText(colour, text, { stream: process.stderr });
}
