/**
 * A process for the calls of directory and file sinks, started by RemoteSinkFiles.
 *
 * A call to a mount whose server has gone may never return. In the collector it would hold one of the four threads
 * that Node shares among all such calls, on which the ledger waits for room as well; and no process, whatever it
 * calls to end, ends before those threads have. This one may be killed at any time.
 */
import { nodeSinkFiles, type SinkFiles } from './sink-files.js';

/** A call by name. */
export interface SinkFilesRequest {
  readonly id: number;
  readonly call: keyof SinkFiles;
  readonly values: readonly unknown[];
}

export type SinkFilesReply =
  | { readonly id: number; readonly kind: 'progress' }
  | { readonly id: number; readonly kind: 'done'; readonly value: unknown }
  | { readonly id: number; readonly kind: 'failed'; readonly code: string; readonly message: string };

function reply(message: SinkFilesReply): void {
  process.send?.(message);
}

type Call = (...values: unknown[]) => Promise<unknown>;

async function answer({ id, call, values }: SinkFilesRequest): Promise<void> {
  const calls = nodeSinkFiles as unknown as Readonly<Record<string, Call>>;
  try {
    // Only one of the calls has a use for what comes last.
    const value = await calls[call]?.(...values, () => reply({ id, kind: 'progress' }));
    reply({ id, kind: 'done', value });
  } catch (error) {
    const { code = 'UNKNOWN', message } = error as Error & { code?: string };
    reply({ id, kind: 'failed', code, message });
  }
}

process.on('message', (request: SinkFilesRequest) => {
  answer(request).catch(() => process.kill(process.pid, 'SIGKILL'));
});
// With the collector gone there is nobody to write for. Not `exit`, which waits for calls that hang.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Whoever stops a service or a terminal signals every process of it; the last checkpoints come after that.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
