/** `collector-spool requeue`: events out of quarantine wait again, say because a key's profile was mended. */
import { requeue as requeueIn } from '../spool/quarantine.js';
import { Spool } from '../spool/spool.js';
import type { Request } from './arguments.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { counted, type Output } from './output.js';

export async function requeue({ directory, key, json }: Request, output: Output): Promise<ExitCode> {
  const onTrouble = (what: string) => output.tell(what);
  const spool = await Spool.open({ directory, durability: 'fsync', onTrouble, ...(key && { key }) });
  try {
    const { events, unreadable } = await requeueIn(directory, key, spool);
    if (json) await output.sayJson({ requeued: events, unreadable });
    else {
      await output.say(`${counted(events, 'event')} put back.`);
      for (const file of unreadable) await output.say(`A line that cannot be read is kept in ${file}.`);
      if (events > 0) {
        await output.say(
          'A client that runs on this spool sends them within seconds; so does: collector-spool drain',
        );
      }
    }
    return EXIT.ok;
  } finally {
    await spool.close();
  }
}
