/** `collector-spool show` and `requeue`. */
import { isUtf8 } from 'node:buffer';
import { openSpool } from '../spool/disk-spool.js';
import {
  type InspectedSpool,
  inspectSpool,
  readSpool,
  reasonOf,
  requeue as requeueIn,
  type VisitedEvent,
} from '../spool/inspection.js';
import type { Request } from './arguments.js';
import { aligned, counted, EXIT, type ExitCode, type Output, size } from './output.js';

export async function show(request: Request, output: Output): Promise<ExitCode> {
  if (request.events) return showEvents(request, output);
  if (request.check) return check(request, output);
  const { directory, key, json } = request;
  const spool = await inspectSpool(directory, key);
  if (json) await output.sayJson(asJson(directory, spool));
  else for (const line of asText(spool)) await output.say(line);
  return EXIT.ok;
}

/** Totals of the parts that can be counted. */
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

/** The names are stable. */
function asJson(directory: string, spool: InspectedSpool): object {
  const { waiting, bytes, oldest, uncounted } = sums(spool);
  return {
    directory,
    // Null rather than a partial count.
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
      ? `${counted(uncounted, 'part')} cannot be counted, see below. In the others ${known}.`
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
  if (sealed > 0) lines.push(`${counted(sealed, 'event')} of them encrypted: --key-file shows the reasons.`);
  if (unreadable > 0) lines.push(`${counted(unreadable, 'line')} there cannot be read.`);
  if (spool.damaged.length > 0) {
    lines.push('', 'Damage found earlier. Remove these files once it is resolved:');
    for (const { path, bytes, missing } of spool.damaged) {
      const what =
        missing === undefined ? `${size(bytes)} of damaged data` : `${counted(missing, 'event')} missing`;
      lines.push(`${path} (${what})`);
    }
  }
  return lines;
}

/** When `owner` was last touched, RFC 3339. */
export function seenAt({ touchedAt }: { readonly touchedAt: number }): string {
  return new Date(touchedAt).toISOString();
}

function holderOf({ holder }: InspectedSpool['parts'][number]): string {
  if (!holder) return 'none';
  if (!holder.here) return `unknown, seen ${seenAt(holder)}`;
  return holder.pid === undefined ? 'a process' : `process ${holder.pid}`;
}

/*
 * `show --events`: one line for each waiting or refused event, without its content unless --contents is
 * given.
 */

/** Length of the longest kind. */
const KIND_WIDTH = 17;

async function showEvents({ directory, key, json, contents }: Request, output: Output): Promise<ExitCode> {
  const asJson = ({ path, offset, size, event }: VisitedEvent) => {
    if (event === undefined || event === 'sealed')
      return { file: path, offset, bytes: size, [event ?? 'unreadable']: true };
    const { kind, capturedAt, body, refusal } = event;
    const said = { captured_at: capturedAt, kind, bytes: body.length };
    const shown = contents ? bodyOf(body) : {};
    if (!refusal) return { ...said, segment: path, offset, ...shown };
    return { ...said, file: path, offset, ...reasonOf(refusal), ...(contents && { refusal }), ...shown };
  };
  const asLines = ({ path, offset, size, event }: VisitedEvent) => {
    if (event === undefined || event === 'sealed')
      return [`${size} bytes at ${offset} of ${path}: ${event ?? 'unreadable'}`];
    const { kind, capturedAt, body, refusal } = event;
    const { status = '', code = '' } = refusal ? reasonOf(refusal) : {};
    const line = `${capturedAt}  ${kind.padEnd(KIND_WIDTH)}  ${body.length} B  ${status} ${code}`.trimEnd();
    if (!contents) return [line];
    const { event: text, event_base64: base64 = '' } = bodyOf(body);
    const refused = refusal ? [`    ${JSON.stringify(refusal)}`] : [];
    return [line, ...refused, `    ${text ?? `in base64: ${base64}`}`];
  };
  const { findings } = await readSpool(directory, key, async (met) => {
    for (const line of json ? [JSON.stringify(asJson(met))] : asLines(met)) await output.say(line);
  });
  for (const { path, message } of findings) output.warn(`${path}: ${message}`);
  return findings.length > 0 ? EXIT.partly : EXIT.ok;
}

type Body = { readonly event?: string; readonly event_base64?: string };

function bodyOf(body: Uint8Array): Body {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length);
  return isUtf8(bytes) ? { event: bytes.toString() } : { event_base64: bytes.toString('base64') };
}

/* `show --check`: reads every byte, and reports damage. */

async function check({ directory, key, json }: Request, output: Output): Promise<ExitCode> {
  const { segments, events, done, cut, quarantined, sealed, findings } = await readSpool(directory, key);
  if (json) {
    const figures = { segments, events, done, cut, quarantined, quarantine_not_opened: sealed };
    await output.sayJson({ intact: findings.length === 0, ...figures, findings });
  } else {
    const waiting = `${counted(events, 'event')} in ${counted(segments, 'segment')}, ${done} of them done`;
    await output.say(`${waiting}; ${counted(quarantined, 'event')} in quarantine.`);
    if (cut > 0)
      await output.say(`${counted(cut, 'write')} interrupted by the end of a process, never acknowledged.`);
    if (sealed > 0)
      await output.say(`${counted(sealed, 'event')} in quarantine not decrypted: see --key-file.`);
    for (const { path, message } of findings) await output.say(`DAMAGED: ${path}: ${message}`);
    if (findings.length === 0) await output.say('No damage found.');
  }
  return findings.length === 0 ? EXIT.ok : EXIT.damaged;
}

export async function requeue({ directory, key, json }: Request, output: Output): Promise<ExitCode> {
  const onTrouble = (what: string) => output.warn(what);
  const spool = await openSpool({ directory, durability: 'fsync', onTrouble, ...(key && { key }) });
  try {
    const { events, unreadable } = await requeueIn(directory, key, spool);
    if (json) await output.sayJson({ requeued: events, unreadable });
    else {
      await output.say(`${counted(events, 'event')} moved back to the waiting events.`);
      for (const file of unreadable) await output.say(`An unreadable line was copied to ${file}.`);
      if (events > 0) {
        await output.say('A running client sends them within seconds; otherwise run collector-spool drain.');
      }
    }
    return EXIT.ok;
  } finally {
    await spool.close();
  }
}
