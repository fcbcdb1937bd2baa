/** `collector-spool drain`: sends what waits, where no application does: after a host was retired, say. */
import { createClient, type Client } from '../client.js';
import { inspectSpool } from '../spool/inspection.js';
import type { Request } from './arguments.js';
import { CommandFailure, EXIT, type ExitCode } from './exit-codes.js';
import { counted, type Output } from './output.js';
import { sums } from './show.js';

const SLICE_MS = 500;
const PROGRESS_MS = 5000;

export async function drain(request: Request, output: Output): Promise<ExitCode> {
  const { directory, key, json, timeoutMs = Infinity } = request;
  let refused = 0;
  const client = clientFor(request, output, () => refused++);
  // With what nobody holds taken over, or the error of a spool that cannot be used.
  await client.ready();
  const found = client.state.waiting;
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  const began = performance.now();
  let toldAt = began;
  for (let waiting = 1; waiting > 0 && !interrupted.signal.aborted;) {
    const left = timeoutMs - (performance.now() - began);
    if (left <= 0) break;
    ({ waiting } = await client.flush(Math.min(SLICE_MS, left)));
    if (waiting === 0 || performance.now() - toldAt < PROGRESS_MS) continue;
    output.tell(`${counted(waiting, 'event')} still waiting`);
    toldAt = performance.now();
  }
  const { waiting } = await client.close({ timeoutMs: 0 });
  // What another host has left is taken over after minutes of silence, and until then is of those that hold.
  const held = Math.max(0, sums(await inspectSpool(directory, key)).waiting - waiting);
  if (json) await output.sayJson({ found, waiting, refused, held_by_others: held });
  else {
    await output.say(`${counted(found, 'event')} found; ${waiting} still waiting, ${refused} refused.`);
    if (refused > 0) await output.say('What was refused is in quarantine: collector-spool quarantine');
    if (held > 0) await output.say(`${counted(held, 'event')} left to the processes that hold them.`);
  }
  if (interrupted.signal.aborted) return EXIT.interrupted;
  return waiting + refused > 0 ? EXIT.partly : EXIT.ok;
}

function clientFor(request: Request, output: Output, onQuarantine: () => void): Client {
  const { directory, key, url, apiKey } = request;
  if (!url) throw new CommandFailure('where is the collector? --url, or COLLECTOR_URL', EXIT.usage);
  if (!apiKey) throw new CommandFailure('with which API key? --api-key-file, or COLLECTOR_KEY', EXIT.usage);
  try {
    return createClient({
      ...{ url, apiKey, onQuarantine },
      spool: { directory, key },
      onTrouble: (what, error) => output.tell(error instanceof Error ? `${what}: ${error.message}` : what),
    });
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : 'this makes no sense', EXIT.usage);
  }
}
