import type { Certificate } from './certificate.js';
/** @param columns of a terminal, where it goes to one. */
export declare function certificateText(certificate: Certificate, output: NodeJS.WriteStream): string;
