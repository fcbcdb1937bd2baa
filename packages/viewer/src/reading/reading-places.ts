/** Where the log and the viewer's own files are, as each thread opens them. */
import path from 'node:path';

export interface ReadingPlaces {
  /** The data directory of a collector or of a mirror. */
  readonly dataDir: string;
  /** The private directory of the viewer. */
  readonly stateDir: string;
  /** The viewer's own source of the wrapping key; undefined: as noted in the data directory. */
  readonly kek: string | undefined;
  /** Payload keys are opened again after this time. */
  readonly keysKeptMs?: number | undefined;
}

/** The directory of the viewer's catalogue. */
export function ownCatalogue({ stateDir }: Pick<ReadingPlaces, 'stateDir'>): string {
  return path.join(stateDir, 'catalogue');
}
