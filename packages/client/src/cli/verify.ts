/** `collector-spool verify`: every byte, and what is damaged. */
import { verifySpool } from '../spool/inspection.js';
import type { Request } from './arguments.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { counted, type Output } from './output.js';

export async function verify({ directory, key, json }: Request, output: Output): Promise<ExitCode> {
  const { segments, events, done, quarantined, sealed, findings } = await verifySpool(directory, key);
  if (json) {
    const figures = { segments, events, done, quarantined, quarantine_not_opened: sealed };
    await output.sayJson({ intact: findings.length === 0, ...figures, findings });
  } else {
    const waiting = `${counted(events, 'event')} in ${counted(segments, 'segment')}, ${done} of them done`;
    await output.say(`${waiting}; ${counted(quarantined, 'event')} in quarantine.`);
    if (sealed > 0) await output.say(`${counted(sealed, 'event')} in quarantine not opened: see --key-file.`);
    for (const { path, message } of findings) await output.say(`DAMAGED: ${path}: ${message}`);
    if (findings.length === 0) await output.say('Every byte is as it was written.');
  }
  return findings.length === 0 ? EXIT.ok : EXIT.damaged;
}
