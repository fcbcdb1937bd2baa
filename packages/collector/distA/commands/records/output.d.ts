import type { FileFormat, PieceJoiner } from '../../records/exports/file-format.js';
import type { ExportFormat } from '../../records/exports/formats.js';
import type { PlacedPiece } from './job.js';
export interface RecordOutput {
    write(piece: PlacedPiece): void | Promise<void>;
    /** On return all is where it belongs. */
    finish(): void | Promise<void>;
    /** Leaves nothing behind, unless it is finished. */
    abandon(): void;
}
/** Where the records of a format go. @param stop ends the waiting for a reader who does not read on. */
export declare function outputOf({ out, isByDay, extension, binary }: Pick<ExportFormat, 'extension' | 'binary'> & OutputPlace, format: FileFormat, stop: AbortSignal): RecordOutput;
interface OutputPlace {
    /** A file, or a directory of files by day; undefined for standard output. */
    readonly out: string | undefined;
    readonly isByDay: boolean;
}
export declare class OneFile implements RecordOutput {
    #private;
    private readonly file;
    constructor(file: string, joiner: PieceJoiner);
    write(piece: PlacedPiece): void;
    finish(): void;
    abandon(): void;
}
export {};
