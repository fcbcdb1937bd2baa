/** Clients that are open when the process ends. One listener for all: Node warns of more than ten. */

const open = new Set<() => void>();

/** @param act called at the end of the process, however it ends in code; nothing can be awaited then. */
export function atExit(act: () => void): void {
  if (open.size === 0) process.on('exit', actAll);
  open.add(act);
}

export function notAtExit(act: () => void): void {
  open.delete(act);
  if (open.size === 0) process.off('exit', actAll);
}

function actAll(): void {
  for (const act of open) {
    try {
      act();
    } catch {
      // It tells by itself what it can tell. The others have their turn, and the exit code stays what it is.
    }
  }
}
