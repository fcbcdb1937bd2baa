/** `checkpoints/listening.json`: where the collector that holds a data directory listens, for commands on its host. */
import { exists } from '../files.js';
import { isLine, StateFile } from '../transparency/state-files.js';
import { isLocked } from '../store/open.js';
import { systemCode } from '../system-code.js';
import { callable, type Listening } from './first-event.js';

/** Named as in the file. */
interface ListeningNote {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

const FILE = new StateFile('listening.json', 'where a collector listens', isListeningNote);

/** On return the file tells of this collector, or is not there: what cannot be written keeps no collector from running. */
export function noteListening(dataDir: string, { host, port, tls }: Listening): void {
  try {
    FILE.remove(dataDir);
    FILE.write(dataDir, { host, port, tls: tls !== undefined });
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
  }
}

/** The address of the collector that holds the directory, for a caller on its host; undefined when that is not known. */
export function urlOfHolder(dataDir: string): URL | undefined {
  const note = holder(dataDir);
  return note && new URL(`${note.tls ? 'https' : 'http'}://${callable(note.host)}:${note.port}/`);
}

export function portOfHolder(dataDir: string): number | undefined {
  return holder(dataDir)?.port;
}

/** After a kill the file is left behind. */
function holder(dataDir: string): ListeningNote | undefined {
  return exists(dataDir) && isLocked(dataDir) ? FILE.read(dataDir) : undefined;
}

function isListeningNote(value: unknown): value is ListeningNote {
  if (typeof value !== 'object' || value === null) return false;
  const { host, port, tls } = value as Record<string, unknown>;
  return isLine(host) && Number.isInteger(port) && typeof tls === 'boolean';
}
