import { type SinkFiles } from './sink-files.js';
import { type LogView } from './sink-queue.js';
import { type Attempt, type Published, type Sink } from './sink.js';
export interface DirectorySinkOptions {
    readonly path: string;
    readonly shown: string;
    readonly files: SinkFiles;
    readonly log: LogView;
}
export declare class DirectorySink implements Sink {
    #private;
    private readonly options;
    readonly wants = "every";
    readonly shown: string;
    constructor(options: DirectorySinkOptions);
    deliver(notes: readonly Published[], attempt: Attempt): Promise<number>;
}
export interface FileSinkOptions {
    readonly path: string;
    readonly shown: string;
    readonly files: SinkFiles;
    readonly log: LogView;
}
export declare class FileSink implements Sink {
    #private;
    private readonly options;
    readonly wants = "every";
    readonly shown: string;
    constructor(options: FileSinkOptions);
    deliver(notes: readonly Published[], attempt: Attempt): Promise<number>;
}
