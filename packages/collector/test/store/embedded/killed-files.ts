/** Files of a process that is killed, or gets an error, at a durable step. */
import { type Files, nodeFiles } from '../../../src/files.js';

/** From the given step on nothing is done. */
export function killedAt(step: number): { files: Files; steps: () => number } {
  return stoppedAt((steps) => steps >= step);
}

/** The given step fails, and no other. */
export function failingAt(step: number): { files: Files; steps: () => number } {
  return stoppedAt((steps) => steps === step);
}

function stoppedAt(isStopped: (steps: number) => boolean): { files: Files; steps: () => number } {
  let steps = 0;
  const next = () => {
    if (isStopped(++steps)) throw new Error('killed');
  };
  const files: Files = {
    ...nodeFiles,
    write(fd, source, length, position) {
      next();
      nodeFiles.write(fd, source, length, position);
    },
    datasync(fd) {
      next();
      nodeFiles.datasync(fd);
    },
    rename(from, to) {
      next();
      nodeFiles.rename(from, to);
    },
    async replace(path, bytes) {
      next();
      await nodeFiles.replace(path, bytes);
    },
    remove(path) {
      next();
      nodeFiles.remove(path);
    },
    syncDirectory(path) {
      next();
      nodeFiles.syncDirectory(path);
    },
  };
  return { files, steps: () => steps };
}
