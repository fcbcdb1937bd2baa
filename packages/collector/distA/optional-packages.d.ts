declare const PACKAGES: {
    readonly demo: "@clinical-events/demo";
    readonly exports: "@clinical-events/exports";
    readonly postgres: "@clinical-events/postgres";
    readonly report: "@clinical-events/report";
};
/** The message says how it is installed. */
export declare class PackageMissing extends Error {
    name: string;
    constructor(name: string);
}
/**
 * @param door of the package: `/fhir`; empty for its main door.
 * @throws PackageMissing
 */
export declare function optionalPackage<Door>(of: keyof typeof PACKAGES, door?: string): Promise<Door>;
export {};
