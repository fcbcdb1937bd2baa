/** The names in a certificate, as Node prints them. */
/**
 * One name: what stands before the colon, and a value in which Node quotes whatever could be mistaken for a
 * separator.
 */
const NAME = /([^:,"]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y;
/** @param text as `X509Certificate.subjectAltName` gives it. @returns DNS names in lower case, and URIs. */
export function alternativeNames(text) {
    const names = [];
    NAME.lastIndex = 0;
    while (NAME.lastIndex < text.length) {
        const [, type, value] = NAME.exec(text) ?? [];
        // What cannot be read to its end is not believed at all.
        if (type === undefined || value === undefined)
            return [];
        const plain = value.startsWith('"') ? unquoted(value) : value;
        if (plain === undefined)
            return [];
        if (type === 'DNS')
            names.push(`dns:${plain.toLowerCase()}`);
        else if (type === 'URI')
            names.push(`uri:${plain}`);
    }
    return names;
}
/** Node quotes as JSON does. */
function unquoted(value) {
    try {
        return JSON.parse(value);
    }
    catch {
        return undefined;
    }
}
//# sourceMappingURL=certificate-names.js.map