/**
 * `checkpoints/cosigned-<key id>` in the data directory: the newest checkpoint that a witness has cosigned, with the
 * log's signatures and the witness's. It is what an auditor asks for, and says from where the witness wants a
 * consistency proof the next time.
 */
import fs from 'node:fs/promises';
import path from 'node:path';
import { keyIdText, parseCheckpoint, type Checkpoint } from '@clinical-events/protocol/verify';
import { verifyCosignature, type NoteKey } from '../integrity/note-signing.js';
import { systemCode } from '../system-code.js';
import { ownCheckpoint, type LogView } from './log-view.js';

export class CosignedFile {
  readonly path: string;

  constructor(
    private readonly directory: string,
    private readonly witness: NoteKey,
  ) {
    this.path = path.join(directory, `cosigned-${keyIdText(witness.keyId)}`);
  }

  /**
   * @returns the checkpoint, or undefined when there is none, or what is there is not one of this log with the
   *   witness's cosignature: then the witness itself tells how far it has seen the log.
   * @throws the system's error when the file cannot be read.
   */
  async read(origin: string, log: LogView): Promise<Checkpoint | undefined> {
    let note: string;
    try {
      note = await fs.readFile(this.path, 'utf8');
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    if (ownCheckpoint(note, origin, log) === undefined) return undefined;
    try {
      return parseCheckpoint(verifyCosignature(note, this.witness).text);
    } catch {
      return undefined;
    }
  }

  /** On return the note is in the place of the one before, on stable storage. A crash leaves one of the two. */
  async write(note: string): Promise<void> {
    const unfinished = `${this.path}.unfinished`;
    await fs.mkdir(this.directory, { recursive: true, mode: 0o700 });
    const file = await fs.open(unfinished, 'w', 0o600);
    try {
      await file.writeFile(note);
      await file.sync();
    } finally {
      await file.close();
    }
    await fs.rename(unfinished, this.path);
    const directory = await fs.open(this.directory, 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}
