/** Whether a back-up, without being laid out, holds the log that was signed. */
import type { BackupFiles } from '../backup/backup-files.js';
import type { CatalogueEntry } from '../backup/catalogue.js';
import type { Manifest } from '../backup/manifest.js';
import { GrowingTree } from '../integrity/growing-tree.js';
import { keyChain } from '../integrity/key-chain.js';
import { commitmentOf, HASH_BYTES, leafHash } from '../integrity/merkle.js';
import { entriesOfCopy } from '../store/open.js';
import { StoreDamaged } from '../store/store.js';
import { checkpointIn } from './log-checkpoints.js';

const CHUNK = 4096;

/**
 * Reads every event of the back-up. The keys are those that it holds itself.
 * @param onEntries how many were read so far.
 * @returns what is wrong, in words; undefined when the events are those that were signed.
 */
export function contradictionIn(
  files: BackupFiles,
  manifest: Manifest,
  onEntries: (entries: number) => void,
): string | undefined {
  const listed = files.catalogue(manifest);
  try {
    const { size, root } = signedCheckpoint(files, listed, manifest);
    const names = new Set([...listed.map(({ file }) => file), manifest.segment.file]);
    // Of another segment a run that was ended may have written nothing yet but its name.
    const tree = GrowingTree.empty();
    const hashes = Buffer.alloc(CHUNK * HASH_BYTES);
    let [held, entries] = [0, 0];
    let signed: Buffer | undefined = size === 0 ? tree.root() : undefined;
    const flush = () => {
      tree.append(hashes, held);
      tree.drain();
      onEntries(tree.size);
      held = 0;
      if (tree.size === size) signed = tree.root();
    };
    if (manifest.entries > 0) {
      for (const entry of entriesOfCopy(files.root, (file) => names.has(file))) {
        const { sequence, envelope, commitment, salted, payloadState } = entry;
        if (payloadState === 'plain' && !commitmentOf(salted).equals(commitment)) {
          return `event ${sequence} is not the one that was received`;
        }
        leafHash(envelope, commitment, hashes, held++ * HASH_BYTES);
        entries++;
        if (held === CHUNK || entries === size || entries === manifest.entries) flush();
        if (entries === manifest.entries) break;
      }
    }
    if (entries < manifest.entries) {
      return `the log can be read up to entry ${entries}, and ${manifest.entries} were backed up`;
    }
    if (signed?.equals(Buffer.from(root)) === true) return undefined;
    return `the first ${size} entries are not those that its checkpoint was signed over`;
  } catch (error) {
    if (error instanceof StoreDamaged) return error.message;
    throw error;
  }
}

/** @throws when it is not signed by a key of the log. */
function signedCheckpoint(files: BackupFiles, listed: readonly CatalogueEntry[], manifest: Manifest) {
  const text = (entry: CatalogueEntry) => {
    const pieces: Buffer[] = [];
    files.read(entry, (piece) => pieces.push(Buffer.from(piece)));
    return Buffer.concat(pieces).toString();
  };
  const first = listed.find(({ file }) => file === 'checkpoints/origin.vkey');
  const rotations = listed
    .filter(({ file }) => file.startsWith('checkpoints/rotations/'))
    .sort((a, b) => (a.file < b.file ? -1 : 1))
    .map(text);
  const { keys } = keyChain(first === undefined ? '' : text(first).trimEnd(), rotations);
  return checkpointIn(manifest.checkpoint, { keys, origin: manifest.origin });
}
