/** The names in a certificate, as Node prints them. */
/** @param text as `X509Certificate.subjectAltName` gives it. @returns DNS names in lower case, and URIs. */
export declare function alternativeNames(text: string): string[];
