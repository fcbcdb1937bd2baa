/** Erasures as a person makes them: planned, reviewed, applied. */
import fs from 'node:fs';
import path from 'node:path';
import type { Plan, PlanEvent } from '../../src/commands/lifecycle/plan-file.js';
import { run } from './collector-process.js';

export type Ended = Awaited<ReturnType<typeof run>>;
/** The file of a plan as it is read, with its hash. */
export type Written = Plan & { readonly sha256: string };

export const PLANNER = 'Pat Planner';
export const APPLIER = 'Al Applier';

/** @param where the data directory, and for a mirror the store. @returns how it ended, and the file it was to write. */
export async function planned(
  where: readonly string[],
  asked: readonly string[],
  out = path.join(fs.mkdtempSync(`${where[1] ?? ''}.plan-`), 'plan.json'),
): Promise<Ended & { readonly file: string }> {
  const ended = await run(['erase', 'plan', ...asked, '--by', PLANNER, '--out', out, ...where]);
  return { ...ended, file: out };
}

export function planIn(file: string): Written {
  return JSON.parse(fs.readFileSync(file, 'utf8')) as Written;
}

/** Sets the marks as a person would, in any layout of the file. */
export function mark(file: string, isMarked: (event: PlanEvent) => boolean): void {
  const plan = planIn(file);
  const events = plan.events.map((event) => ({ ...event, erase: isMarked(event) }));
  fs.writeFileSync(file, JSON.stringify({ ...plan, events }));
}

export function applied(where: readonly string[], file: string, ...more: readonly string[]): Promise<Ended> {
  const reason = more.includes('--reason') ? [] : ['--reason', 'erasure-request'];
  const asked = [...reason, '--case', 'DSR-2026/114', '--by', APPLIER, ...more];
  return run(['erase', 'apply', file, ...asked, ...where]);
}

/** Both, with the marks as the plan has them. @returns how the second ended, or the first where it failed. */
export async function erased(
  where: readonly string[],
  asked: readonly string[],
  ...more: readonly string[]
): Promise<Ended> {
  const plan = await planned(where, asked);
  return plan.code === 0 ? applied(where, plan.file, ...more) : plan;
}
