/** The result of a soak in Markdown. */
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { table } from '../lib/table.mjs';

const ms = (value) => (value === undefined ? '' : decimals(value, value < 100 ? 1 : 0));

function phasesTable(phases) {
  const rows = Object.entries(phases).map(([name, { seconds, answered, waited, refused, unanswered }]) => [
    name,
    decimals(seconds, 0),
    whole(answered.count / seconds),
    ms(answered.p50),
    ms(answered.p99),
    ms(answered.max),
    ms(waited.p99),
    ms(waited.max),
    Object.entries(refused)
      .map(([code, count]) => `${code} ${whole(count)}`)
      .join(', '),
    whole(unanswered),
  ]);
  const heading = ['Phase', 's', '201/s', 'p50 ms', 'p99 ms', 'max ms', 'event to 201, p99 ms', 'max ms'];
  return table([[...heading, 'refused', 'no answer'], ...rows]);
}

/** One row for each tenth of the longest run between two starts. */
function memoryLine({ firstHalf, secondHalf, curve }) {
  return (
    `Memory (RSS), the highest of each tenth of the longest run between two starts, MiB: ` +
    `${curve.map(mebibytes).join(', ')}. First half ${mebibytes(firstHalf)}, second half ${mebibytes(secondHalf)}.`
  );
}

function checkLine({ what, ok, detail, isNoGate = false }) {
  const mark = ok ? 'ok ' : isNoGate ? 'late' : 'NOT SO';
  return `  ${mark.padEnd(6)} ${what}${detail === '' || detail.length > 300 ? '' : ` (${detail})`}`;
}

export function soakReport(result) {
  const { minutes, load, rate, best, disk, browser, phases, ledger, starts, memory, checks, failures } =
    result;
  const of = best === undefined ? '' : `, ${whole(load * 100)} % of the best rate of ${whole(best)}`;
  const starting = starts.map(({ listeningMs }) => `${whole(listeningMs)} ms`).join(', ');
  const sums = `${whole(ledger.acknowledged)} events acknowledged, ${whole(ledger.stored)} stored`;
  return [
    `${minutes} minutes at ${whole(rate)} events/s${of}; the data directory on ${disk}`,
    browser ? '' : 'No browser could be started: the page was not looked at, only what it is made of.\n',
    phasesTable(phases),
    '',
    `${sums}, ${whole(ledger.unanswered)} of them never answered and kept whole. Starts: ${starting}.`,
    '',
    memoryLine(memory),
    '',
    `The console was compared with the senders ${whole(result.console.compared)} times.`,
    '',
    ...checks.map(checkLine),
    '',
    failures === 0 ? 'All of it was as it has to be.' : `${failures} of it were NOT as they have to be.`,
  ].join('\n');
}
