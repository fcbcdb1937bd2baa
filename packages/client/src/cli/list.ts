/** `collector-spool list` and `collector-spool quarantine`: events one by one; of what they say nothing unless asked. */
import { isUtf8 } from 'node:buffer';
import { nodeFiles } from '../spool/files.js';
import { eachWaiting, reasonOf } from '../spool/inspection.js';
import { quarantinedLines, quarantineFiles } from '../spool/quarantine.js';
import type { Request } from './arguments.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import type { Output } from './output.js';

/** The longest name of a kind. */
const KIND_WIDTH = 17;

export async function list({ directory, key, json, contents }: Request, output: Output): Promise<ExitCode> {
  const left = await eachWaiting(directory, key, async ({ segment, offset, kind, capturedAt, body }) => {
    const at = new Date(capturedAt).toISOString();
    const shown = contents ? bodyOf(body) : {};
    if (json) {
      const event = { captured_at: at, kind, bytes: body.length, segment, offset, ...shown };
      await output.say(JSON.stringify(event));
    } else {
      await output.say(`${at}  ${kind.padEnd(KIND_WIDTH)}  ${body.length} B`);
      await sayBody(shown, output);
    }
  });
  for (const { path, why } of left) output.tell(`${path} ${why}`);
  return left.length > 0 ? EXIT.partly : EXIT.ok;
}

export async function quarantine(
  { directory, key, json, contents }: Request,
  output: Output,
): Promise<ExitCode> {
  for (const file of await quarantineFiles(nodeFiles, directory)) {
    for await (const { event, offset, size } of quarantinedLines(nodeFiles, file, key)) {
      if (event === undefined || event === 'sealed') {
        const what = event ?? 'unreadable';
        if (json) await output.say(JSON.stringify({ file, offset, bytes: size, [what]: true }));
        else await output.say(`${size} bytes at ${offset} of ${file}: ${what}`);
        continue;
      }
      const { kind, capturedAt, refusal, body } = event;
      const reason = reasonOf(refusal);
      const shown = contents ? bodyOf(body) : {};
      if (json) {
        const told = { captured_at: capturedAt, kind, bytes: body.length, file, offset, ...reason };
        await output.say(JSON.stringify({ ...told, ...(contents && { refusal }), ...shown }));
      } else {
        const code = reason.code === '' ? '' : ` ${reason.code}`;
        await output.say(
          `${capturedAt}  ${kind.padEnd(KIND_WIDTH)}  ${body.length} B  ${reason.status}${code}`,
        );
        if (contents) await output.say(`    ${JSON.stringify(refusal)}`);
        await sayBody(shown, output);
      }
    }
  }
  return EXIT.ok;
}

type Body = { readonly event?: string; readonly event_base64?: string };

function bodyOf(body: Uint8Array): Body {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length);
  return isUtf8(bytes) ? { event: bytes.toString() } : { event_base64: bytes.toString('base64') };
}

async function sayBody({ event, event_base64: base64 }: Body, output: Output): Promise<void> {
  if (event !== undefined) await output.say(`    ${event}`);
  if (base64 !== undefined) await output.say(`    in base64: ${base64}`);
}
