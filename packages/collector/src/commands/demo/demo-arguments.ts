/** What an operator types to `collector demo`, read strictly. Each function throws a usage failure that says how. */
import type { Config } from '../../config.js';
import { callable, urlOfHolder } from '../serve/listening.js';
import { usage } from '../keys.js';
import { collectorUrl } from '../remote-collector.js';

const DAY = 86_400_000;

/** A whole number from 1 to `most`. */
export function countFrom(option: string, text: string, most: number): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= most) return count;
  throw usage(`${option}: ${JSON.stringify(text)} is not a whole number from 1 to ${most}`);
}

/** @returns milliseconds. */
export function daysFrom(text: string): number {
  return countFrom('--days', text, 3650) * DAY;
}

/** Printed again in the summary, for a shell. */
export function seedFrom(text: string): string {
  if (/^[A-Za-z0-9._-]{1,64}$/.test(text)) return text;
  throw usage(`--seed: ${JSON.stringify(text)} is not 1 to 64 characters of A-Z a-z 0-9 . _ -`);
}

/** `200/s` or `0.5/s`. @returns events a second. */
export function rateFrom(text: string): number {
  const [, number = ''] = /^(\d{1,7}(?:\.\d{1,3})?)\/s$/.exec(text) ?? [];
  if (Number(number) > 0) return Number(number);
  throw usage(`--rate: ${JSON.stringify(text)} is not of the form 200/s`);
}

/** Where the collector is that is named; else the one that holds the data directory, or would listen as configured. */
export function urlFrom(
  { url: text, port }: { readonly url?: string; readonly port?: string },
  config: Pick<Config, 'host' | 'port' | 'dataDir'>,
): URL {
  if (text === undefined) {
    const holder = port === undefined ? urlOfHolder(config.dataDir) : undefined;
    if (holder !== undefined) return holder;
    const at = port === undefined ? config.port : countFrom('--port', port, 65_535);
    return new URL(`http://${callable(config.host)}:${at}/`);
  }
  if (port !== undefined) throw usage('--port: --url says already where');
  return collectorUrl('--url', text);
}
