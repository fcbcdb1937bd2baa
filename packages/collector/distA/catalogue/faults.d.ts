export declare class CatalogueFault extends Error {
    name: string;
}
/** The file holds what SQLite or the catalogue cannot have written. Rebuilt, it is right. */
export declare class CatalogueDamaged extends CatalogueFault {
    name: string;
}
/** Another process is writing the catalogue. */
export declare class CatalogueBusy extends CatalogueFault {
    name: string;
}
/** Why a question is refused while an update is on its way. */
export declare const UNFINISHED = "the catalogue is being brought up to date: its update has not come to its end";
/** @returns the same as a fault of the catalogue, in words; what is none comes back as it is. */
export declare function faultOf(error: unknown, directory: string): unknown;
/** True for an error that says that another connection holds what is asked for. */
export declare function isBusy(error: unknown): boolean;
