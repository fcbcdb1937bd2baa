/**
 * Copies a back-up into an empty directory. The copy lies in `restoring/` within it until it is proved. Then it is moved
 * up, the checkpoints last: a collector does not start on a ledger without them, so not on what a kill leaves.
 */
import fs from 'node:fs';
import path from 'node:path';
import { nodeFiles } from '../files.js';
import { assertNoLinks, DirectoryUnfit } from './backup.js';
/**
 * In this order: what a checkpoint and a head of the access log speak of is copied after them and before it, so that a
 * round that runs meanwhile does no harm. Nothing else of a data directory has to be restored.
 */
const CONTENTS = ['checkpoints', 'signing-keys', 'lifecycle', 'ledger', 'access.log'];
const PIECE_BYTES = 1 << 20;
/** @throws DirectoryUnfit, also of what is no directory. */
function assertEmpty(directory) {
    const found = fs.statSync(directory, { throwIfNoEntry: false });
    if (found === undefined)
        return;
    if (!found.isDirectory()) {
        throw new DirectoryUnfit(`${directory} is no directory: give a new one or an empty one`);
    }
    const other = nodeFiles.list(directory).find((name) => name !== 'lost+found');
    if (other === undefined)
        return;
    throw new DirectoryUnfit(`${directory} is not empty, it holds ${other}: give a new directory or an empty one`);
}
export class Restoration {
    directory;
    /** Where the copy lies until it is proved. */
    copy;
    #isNew;
    /** @throws DirectoryUnfit */
    constructor(directory) {
        this.directory = directory;
        assertEmpty(directory);
        this.#isNew = !fs.existsSync(directory);
        this.copy = path.join(directory, 'restoring');
    }
    /**
     * @param copyKeys copies the API keys, and checks them.
     * @param onProgress bytes that are there, and of how many.
     */
    async lay(backup, copyKeys, onProgress) {
        assertNoLinks(backup);
        nodeFiles.makeDirectory(this.copy);
        const files = CONTENTS.flatMap((name) => filesIn(backup, name));
        const of = files.reduce((sum, file) => sum + fs.statSync(path.join(backup, file)).size, 0);
        let done = 0;
        for (const file of files) {
            const target = path.join(this.copy, file);
            nodeFiles.makeDirectory(path.dirname(target));
            copyFile(path.join(backup, file), target, (bytes) => onProgress((done += bytes), of));
        }
        await copyKeys(path.join(this.copy, 'keys.db'));
        for (const name of nodeFiles.list(this.copy))
            syncBelow(path.join(this.copy, name));
        nodeFiles.syncDirectory(this.copy);
    }
    /** On return the directory is a data directory, on stable storage. */
    take() {
        const names = nodeFiles.list(this.copy).filter((name) => name !== 'checkpoints');
        const move = (name) => nodeFiles.rename(path.join(this.copy, name), path.join(this.directory, name));
        names.forEach(move);
        nodeFiles.syncDirectory(this.directory);
        move('checkpoints');
        fs.rmdirSync(this.copy);
        nodeFiles.syncDirectory(this.directory);
    }
    /** Leaves the directory as it was found. */
    discard() {
        fs.rmSync(this.copy, { recursive: true, force: true });
        if (this.#isNew)
            fs.rmSync(this.directory, { recursive: true, force: true });
    }
}
/** Of one thing in a directory, by their names in that, without what a run that was killed left. */
function filesIn(directory, name) {
    const found = fs.statSync(path.join(directory, name), { throwIfNoEntry: false });
    if (found?.isDirectory() === true) {
        return nodeFiles
            .list(path.join(directory, name))
            .flatMap((each) => filesIn(directory, path.join(name, each)));
    }
    return found === undefined || name.endsWith('.draft') ? [] : [name];
}
function copyFile(from, to, onBytes) {
    const source = nodeFiles.open(from, 'r');
    try {
        const target = nodeFiles.open(to, 'wx+');
        try {
            const piece = Buffer.allocUnsafe(PIECE_BYTES);
            for (let at = 0;;) {
                const held = nodeFiles.read(source, piece, 0, piece.length, at);
                if (held === 0)
                    break;
                nodeFiles.write(target, piece, held, at);
                at += held;
                onBytes(held);
            }
            nodeFiles.datasync(target);
        }
        finally {
            nodeFiles.close(target);
        }
    }
    finally {
        nodeFiles.close(source);
    }
}
function syncBelow(file) {
    if (!fs.statSync(file).isDirectory())
        return;
    for (const name of nodeFiles.list(file))
        syncBelow(path.join(file, name));
    nodeFiles.syncDirectory(file);
}
//# sourceMappingURL=restoration.js.map