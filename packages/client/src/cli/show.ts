/** `collector-spool show`: what a spool holds, in numbers. */
import { type InspectedSpool, inspectSpool } from '../spool/inspection.js';
import type { Request } from './arguments.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { aligned, counted, type Output, size } from './output.js';

export async function show({ directory, key, json }: Request, output: Output): Promise<ExitCode> {
  const spool = await inspectSpool(directory, key);
  if (json) await output.sayJson(asJson(directory, spool));
  else for (const line of asText(spool)) await output.say(line);
  return EXIT.ok;
}

/** What waits altogether, as far as it can be counted. */
export function sums({ parts }: Pick<InspectedSpool, 'parts'>): {
  waiting: number;
  bytes: number;
  oldest: string | undefined;
  uncounted: number;
} {
  let [waiting, bytes, uncounted] = [0, 0, 0];
  let oldest: string | undefined;
  for (const part of parts) {
    if (part.waiting === undefined) uncounted++;
    waiting += part.waiting ?? 0;
    bytes += part.waitingBytes ?? 0;
    if (part.oldest !== undefined && (oldest === undefined || part.oldest < oldest)) oldest = part.oldest;
  }
  return { waiting, bytes, oldest, uncounted };
}

function reasonsOf({ quarantine }: InspectedSpool): { status: string; code: string; events: number }[] {
  const reasons = new Map<string, { status: string; code: string; events: number }>();
  for (const { status, code, events } of quarantine.flatMap((file) => file.reasons)) {
    const name = JSON.stringify([status, code]);
    reasons.set(name, { status, code, events: events + (reasons.get(name)?.events ?? 0) });
  }
  return [...reasons.values()].sort((one, other) => other.events - one.events);
}

function quarantineSums({ quarantine }: InspectedSpool) {
  let [events, sealed, unreadable] = [0, 0, 0];
  for (const file of quarantine) {
    events += file.events;
    sealed += file.sealed;
    unreadable += file.unreadable;
  }
  return { events, sealed, unreadable };
}

/** The names are a promise. */
function asJson(directory: string, spool: InspectedSpool): object {
  const { waiting, bytes, oldest, uncounted } = sums(spool);
  return {
    directory,
    // Of a spool that cannot be counted as a whole no number is said that could be taken for it.
    waiting: uncounted > 0 ? null : waiting,
    waiting_bytes: uncounted > 0 ? null : bytes,
    oldest: oldest ?? null,
    parts_not_counted: uncounted,
    parts: spool.parts.map((part) => ({
      path: part.path,
      held: part.holder !== undefined,
      holder: part.holder
        ? { pid: part.holder.pid ?? null, this_host: part.holder.here, seen: seenAt(part.holder) }
        : null,
      segments: part.segments,
      waiting: part.waiting ?? null,
      waiting_bytes: part.waitingBytes ?? null,
      oldest: part.oldest ?? null,
      problem: part.problem ?? null,
    })),
    quarantine: {
      ...quarantineSums(spool),
      reasons: reasonsOf(spool),
      files: spool.quarantine.map(({ path, events }) => ({ path, events })),
    },
    damaged: spool.damaged.map(({ path, bytes, missing }) => ({ path, bytes, missing: missing ?? null })),
  };
}

function asText(spool: InspectedSpool): string[] {
  const { waiting, bytes, oldest, uncounted } = sums(spool);
  const since = oldest === undefined ? '' : `, the oldest since ${oldest}`;
  const known = `${counted(waiting, 'event')} wait${waiting === 1 ? 's' : ''} (${size(bytes)})${since}`;
  const lines = [
    uncounted > 0
      ? `Unknown how many events wait: ${counted(uncounted, 'part')} cannot be counted, see below. In the others ${known}.`
      : `${known}.`,
  ];
  if (spool.parts.length > 0) {
    const heading = ['PART', 'HELD BY', 'EVENTS', 'SIZE', 'OLDEST'];
    const rows = spool.parts.map((part) => [
      part.path,
      holderOf(part),
      part.waiting === undefined ? '?' : String(part.waiting),
      part.waitingBytes === undefined ? '?' : size(part.waitingBytes),
      part.oldest ?? '-',
    ]);
    lines.push('', ...aligned([heading, ...rows]));
    for (const { problem } of spool.parts) if (problem !== undefined) lines.push(problem);
  }
  const { events, sealed, unreadable } = quarantineSums(spool);
  if (events + unreadable > 0) lines.push('', `${counted(events, 'event')} in quarantine.`);
  const reasons = reasonsOf(spool).map(({ events: count, status, code }) => [String(count), status, code]);
  if (reasons.length > 0) lines.push(...aligned([['EVENTS', 'STATUS', 'CODE'], ...reasons]));
  if (sealed > 0) lines.push(`${counted(sealed, 'event')} of them sealed: --key-file shows the reasons.`);
  if (unreadable > 0) lines.push(`${counted(unreadable, 'line')} there cannot be read.`);
  if (spool.damaged.length > 0) {
    lines.push('', 'Damage that was found. Take these files away to have it forgotten:');
    for (const { path, bytes, missing } of spool.damaged) {
      const what =
        missing === undefined ? `${size(bytes)} that were no event` : `${counted(missing, 'event')} missing`;
      lines.push(`${path} (${what})`);
    }
  }
  return lines;
}

/** The last sign of life of who may hold a part, RFC 3339. */
export function seenAt({ touchedAt }: { readonly touchedAt: number }): string {
  return new Date(touchedAt).toISOString();
}

function holderOf({ holder }: InspectedSpool['parts'][number]): string {
  if (!holder) return 'nobody';
  if (!holder.here) return `unknown, seen ${seenAt(holder)}`;
  return holder.pid === undefined ? 'a process' : `process ${holder.pid}`;
}
