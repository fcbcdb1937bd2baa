import type { FileFormat } from './file-format.js';
export interface ExportFormat {
    readonly summary: string;
    readonly extension: string;
    /** Not to be shown on a terminal. */
    readonly binary?: true;
    /** Bytes of log that go into a piece, where larger pieces make a better file. */
    readonly jobBytes?: number;
    /** Only the format that was asked for is loaded. */
    readonly load: () => Promise<FileFormat>;
}
export declare const FORMATS: Readonly<Record<string, ExportFormat>>;
