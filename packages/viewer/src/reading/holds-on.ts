/** Which holds cover a run. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import { type HoldRecord, holdsOf, metBy } from '@clinical-events/collector/commands/lifecycle/holds';
import type { ViewersLog } from './opened-log.js';

/**
 * The ids of the holds on a run, its parent run, its persons or its organisation. Empty if the record of a
 * hold cannot be read; a hold on a run further up is found only if the run existed when the hold began.
 */
export function holdsOn(dataDir: string, log: ViewersLog, { metadata }: ClinicalRecord): string[] {
  const holds = readHolds(dataDir, log);
  const runs = [metadata.run_id, metadata.parent?.run_id].filter((id) => typeof id === 'string');
  const persons = metadata.calls
    .flatMap(({ user, target }) => [user?.caller_id, target?.target_id])
    .filter((id) => typeof id === 'string');
  const covers = (hold: HoldRecord) => {
    const met = metBy(hold);
    return (
      hold.organisations.includes(metadata.organisation) ||
      runs.some((id) => hold.runs.includes(id) || hold.met?.runs.includes(id)) ||
      persons.some((id) => hold.subjects.includes(id)) ||
      metadata.events.some(({ sequence }) => met.has(sequence))
    );
  };
  return holds.filter(covers).map(({ action }) => action);
}

function readHolds(dataDir: string, log: ViewersLog): HoldRecord[] {
  const actions = log.actions();
  if (actions.holds.size === 0) return [];
  try {
    return holdsOf(dataDir, actions, { holdKey: (action) => log.holdKey(action) });
  } catch {
    // The keys are away, or the group may not read the records: the page is shown without holds.
    return [];
  }
}
