/**
 * The formats of `collector records`: a name, a file here or in the package `exports`, and the table of its mapping in
 * docs/reference/records.md.
 */
import { optionalPackage } from '../../optional-packages.js';
/** @param name of the format, of its door in the package, and of what that exports. */
async function linesOf(name) {
    const [{ lines }, loaded] = await Promise.all([
        import('./file-format.js'),
        optionalPackage('exports', `/${name}`),
    ]);
    return lines(loaded[name]);
}
export const FORMATS = {
    ndjson: {
        summary: 'one record a line, as docs/reference/records.md has it; nothing is left out',
        extension: '.ndjson',
        load: async () => (await import('./json.js')).ndjson,
    },
    json: {
        summary: 'the same in one array',
        extension: '.json',
        load: async () => (await import('./json.js')).json,
    },
    csv: {
        summary: 'one row a record, in brief, for a spreadsheet',
        extension: '.csv',
        load: async () => (await import('./csv.js')).csv,
    },
    parquet: {
        summary: 'typed columns and nested lists, for analysis',
        extension: '.parquet',
        binary: true,
        // A piece is a row group: what a reader may skip as one.
        jobBytes: 32 << 20,
        load: async () => (await optionalPackage('exports', '/parquet')).parquet,
    },
    fhir: {
        summary: 'one FHIR R4 Bundle a line, for audit repositories',
        extension: '.ndjson',
        load: () => linesOf('fhir'),
    },
    otlp: {
        summary: 'one OTLP/JSON trace a line, for tracing tools',
        extension: '.ndjson',
        load: () => linesOf('otlp'),
    },
    prov: {
        summary: 'one PROV-JSON document a line',
        extension: '.ndjson',
        load: () => linesOf('prov'),
    },
};
//# sourceMappingURL=formats.js.map