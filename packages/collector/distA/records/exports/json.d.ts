export declare const ndjson: import("./file-format.js").FileFormat<import("@clinical-events/protocol").BaseEvent>;
export declare const json: import("./file-format.js").FileFormat<import("@clinical-events/protocol").BaseEvent>;
