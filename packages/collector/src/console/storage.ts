/** The ledger, how it grows, and what is left of the disk. */
import type { Element } from './element.js';
import { bytes, count, counted, duration, percent } from './format.js';
import { metered } from './health.js';
import { card, facts, type Fact, type View } from './view.js';

const WATCHED_SECONDS = 600;

export function storage(view: View): Element {
  const { index } = view.state;
  return card(
    'storage',
    'Ledger and disk',
    '',
    facts([
      growth(view),
      disk(view),
      ...(index === null
        ? []
        : [
            {
              name: 'Id index',
              value: `${count(index.entries)} entries`,
              ...(index.unwritten_tables > 0 && {
                more: `${counted(index.unwritten_tables, 'table')} not yet written`,
              }),
            },
          ]),
    ]),
  );
}

/** Also why there is no forecast for the disk, which is at the top once there is one. */
function growth({ state: { ledger } }: View): Fact {
  const { events_per_hour: events, bytes_per_hour: size, watched_seconds: watched } = ledger;
  const name = 'Growth';
  if (events === null || size === null) {
    const left = duration(Math.max(1, WATCHED_SECONDS - watched) * 1000);
    return { name, value: `available in ${left}`, more: 'once ten minutes were watched' };
  }
  return {
    name,
    value: `${count(events)} events an hour`,
    more: `${bytes(size)} an hour, over the last ${duration(watched * 1000)}; what else fills the disk is not foreseen`,
  };
}

function disk({ state: { disk: space } }: View): Fact {
  const { free_bytes: free, total_bytes: all } = space;
  const name = 'Disk';
  if (free === null || all === null) return { name, value: 'has not answered' };
  const used = all === 0 ? 1 : 1 - free / all;
  return {
    name,
    value: metered(used, `${percent(used)} used`),
    more: `${bytes(free)} free of ${bytes(all)}`,
  };
}
