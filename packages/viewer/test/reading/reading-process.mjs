// Opens a log as the viewer does, with the compiled threads, and prints what happens as JSON, one object a line.
// Arguments: the data directory, the state directory, and `refuse` if no report of an erasure is recorded.
import { openReading } from '../../dist/reading/open-reading.js';

const [, , dataDir = '', stateDir = '', refuses] = process.argv;
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);
const reading = await openReading({
  ...{ dataDir, stateDir, kek: undefined, keysKeptMs: 200, everyMs: 50 },
  onFollowed: async (action) => {
    say({ followed: action });
    if (refuses === 'refuse') throw new Error('the access log is full');
  },
  onTrouble: (trouble) => say({ trouble }),
});
say({ id: reading.viewerId });
process.stdin.on('end', () => reading.close()).resume();
