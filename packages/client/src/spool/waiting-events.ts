/** The events that wait in a spool, one by one, for people to see; nobody is held up. */
import type { EventKind } from '@clinical-events/protocol';
import { examine, type UnfitSegment } from './adoption.js';
import { nodeFiles, type SpoolFiles } from './files.js';
import { partsOf } from './inspection.js';
import { walk } from './segment-walk.js';
import { WaitingSegment } from './waiting-segment.js';

export interface WaitingEvent {
  /** The path of the segment, and where its frame begins there. */
  readonly segment: string;
  readonly offset: number;
  readonly kind: EventKind;
  /** Unix time in milliseconds. */
  readonly capturedAt: number;
  readonly body: Uint8Array;
}

/**
 * Visits them part by part. What a living process does meanwhile may or may not be seen.
 * @returns what bears the name of a segment and cannot be read, with the reason.
 * @throws SpoolKeyWrong as `Spool.open` does; the errors of the file system.
 */
export async function eachWaiting(
  directory: string,
  key: Uint8Array | undefined,
  visit: (event: WaitingEvent) => void | Promise<void>,
  files: SpoolFiles = nodeFiles,
): Promise<UnfitSegment[]> {
  const left: UnfitSegment[] = [];
  for (const part of await partsOf(directory, files)) {
    const { segments, unfit } = await examine(files, part, key);
    left.push(...unfit);
    for (const { name, id, seal } of segments) {
      const segment = new WaitingSegment(part, id, seal, name);
      await walk(files, segment, ({ frame, offset }, done) => {
        if (frame?.kind === undefined || done.has(offset)) return undefined;
        const { kind, capturedAt, body } = frame;
        return visit({ segment: segment.path, offset, kind, capturedAt, body });
      });
    }
  }
  return left;
}
