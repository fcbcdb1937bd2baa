/**
 * The certificate and the key that the collector shows its clients, and what it checks theirs against: as they lie on
 * the disk.
 */
import { X509Certificate, createPrivateKey } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { systemCode } from '../system-code.js';
/** The files cannot be used. Tells every fault. */
export class CredentialsUnusable extends Error {
    faults;
    name = 'CredentialsUnusable';
    constructor(faults) {
        super(faults.map(({ message }) => message).join('; '));
        this.faults = faults;
    }
}
/** One fault, on its way into the list. */
class Unfit extends Error {
}
/** Something else than a PEM file was named, and would be read into memory. */
const MAX_FILE_BYTES = 1 << 20;
/** PKCS #8 (RFC 7468 section 11), and what OpenSSL wrote before it. */
const ENCRYPTED = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
/**
 * Reads the files and holds them against each other. An expired certificate is read like any other.
 * @throws {@link CredentialsUnusable}
 */
export async function readCredentials(files) {
    const states = await fileStates(files);
    const faults = [];
    const attempt = async (file, step) => {
        try {
            return await step();
        }
        catch (error) {
            if (!(error instanceof Unfit))
                throw error;
            faults.push({ file, message: error.message });
            return undefined;
        }
    };
    const certificates = async (file) => {
        const pem = await read(file);
        return { pem, certificate: firstCertificateIn(pem, file) };
    };
    // One after the other, so that several faults are reported in the same order each time.
    const shown = await attempt('cert', () => certificates(files.cert));
    const proof = await attempt('key', async () => {
        const pem = await read(files.key);
        return { pem, privateKey: privateKeyIn(pem, files.key) };
    });
    const { clientCa: caFile } = files;
    const ca = caFile === undefined ? undefined : await attempt('clientCa', () => certificates(caFile));
    if (shown === undefined || proof === undefined)
        throw new CredentialsUnusable(faults);
    await attempt('key', () => {
        if (shown.certificate.checkPrivateKey(proof.privateKey))
            return;
        throw new Unfit(`the key in ${files.key} is not that of the first certificate in ${files.cert}`);
    });
    if (faults.length > 0)
        throw new CredentialsUnusable(faults);
    const credentials = { cert: shown.pem, key: proof.pem, clientCa: ca?.pem };
    try {
        // OpenSSL's own mind, of weak keys for one.
        createSecureContext({ cert: shown.pem, key: proof.pem, ...(ca && { ca: ca.pem }) });
    }
    catch (error) {
        const message = `${files.cert} and ${files.key} cannot be used: ${codeOf(error)}`;
        throw new CredentialsUnusable([{ file: 'cert', message }]);
    }
    return { ...credentials, certificate: shown.certificate, fileStates: states };
}
/**
 * A text that changes when one of the files does, also when it, or a directory on the way to it, is a symbolic link
 * that now leads elsewhere: so do certbot and the secrets of Kubernetes renew. A file that is not there is a state too.
 */
async function fileStates({ cert, key, clientCa }) {
    const states = [cert, key, ...(clientCa === undefined ? [] : [clientCa])].map(async (file) => {
        try {
            const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
            return [dev, ino, size, mtimeNs, ctimeNs].join();
        }
        catch (error) {
            return codeOf(error);
        }
    });
    return (await Promise.all(states)).join(' ');
}
async function read(file) {
    try {
        const found = await stat(file);
        if (!found.isFile())
            throw new Unfit(`${file} is not a file`);
        if (found.size > MAX_FILE_BYTES)
            throw new Unfit(`${file} is too large for a PEM file`);
        return await readFile(file);
    }
    catch (error) {
        if (error instanceof Unfit)
            throw error;
        throw new Unfit(`${file} cannot be read: ${codeOf(error)}`, { cause: error });
    }
}
/** All in the file are read. */
function firstCertificateIn(pem, file) {
    const blocks = pem.toString('latin1').match(CERTIFICATE) ?? [];
    try {
        const [first] = blocks.map((block) => new X509Certificate(block));
        if (first !== undefined)
            return first;
    }
    catch (error) {
        throw new Unfit(`${file} holds a certificate that cannot be read: ${codeOf(error)}`, {
            cause: error,
        });
    }
    throw new Unfit(`${file} holds no certificate in PEM`);
}
function privateKeyIn(pem, file) {
    try {
        return createPrivateKey(pem);
    }
    catch (error) {
        const why = ENCRYPTED.test(pem.toString('latin1'))
            ? 'is protected by a passphrase, which no one could type at a restart'
            : 'holds no private key in PEM';
        throw new Unfit(`${file} ${why}`, { cause: error });
    }
}
/** Never the message: OpenSSL's may quote from what it read. */
function codeOf(error) {
    return systemCode(error) ?? 'unknown error';
}
export class CredentialWatch {
    #options;
    #used;
    /** The files as they were when last tried. */
    #tried;
    /** The files as they were at the last look. */
    #seen;
    /** When what was last tried is to be tried again; it was too early for it. Milliseconds since 1970 UTC. */
    #notBefore = Infinity;
    #timer;
    #work = Promise.resolve();
    constructor(options) {
        this.#options = options;
        this.#used = options.credentials;
        this.#tried = this.#seen = options.credentials.fileStates;
    }
    /** Without keeping the process alive for it. */
    start() {
        let looking = false;
        this.#timer ??= setInterval(() => {
            // A file system that hangs must not gather looks.
            if (looking)
                return;
            looking = true;
            const done = () => {
                looking = false;
            };
            this.#queue(() => this.#look()).then(done, done);
        }, this.#options.pollMs ?? 2000).unref();
    }
    stop() {
        clearInterval(this.#timer);
        this.#timer = undefined;
    }
    /**
     * Reads the files now, changed or not.
     * @returns whether they are in use; when not, `onTrouble` was called with the reason, or they are being changed and
     *   are read again.
     */
    reload() {
        return this.#queue(() => this.#load());
    }
    #queue(work) {
        const done = this.#work.then(work, work);
        this.#work = done;
        return done;
    }
    async #look() {
        const states = await fileStates(this.#options.files);
        const settled = states === this.#seen;
        this.#seen = states;
        // Anyone who renews writes one file after the other. What stays as it is from one look to the next is taken as
        // whole.
        if (settled && (states !== this.#tried || Date.now() >= this.#notBefore))
            await this.#load();
    }
    async #load() {
        const { files, onChange, onTrouble } = this.#options;
        this.#notBefore = Infinity;
        try {
            const credentials = await readCredentials(files);
            this.#tried = credentials.fileStates;
            // They were replaced while they were read: the next look reads them again.
            if ((await fileStates(files)) !== this.#tried)
                return false;
            const { validFromDate, validToDate } = credentials.certificate;
            const now = Date.now();
            if (validToDate.getTime() <= now) {
                throw unusable(`the certificate in ${files.cert} has expired`);
            }
            if (validFromDate.getTime() > now) {
                this.#notBefore = validFromDate.getTime();
                throw unusable(`the certificate in ${files.cert} is not valid before ${validFromDate.toISOString()}; it is taken then`);
            }
            if (!isSame(credentials, this.#used))
                onChange(credentials);
            this.#used = credentials;
            return true;
        }
        catch (error) {
            this.#tried = await fileStates(files);
            onTrouble(error instanceof Error ? error.message : String(error));
            return false;
        }
    }
}
function unusable(message) {
    return new CredentialsUnusable([{ file: 'cert', message }]);
}
function isSame(one, other) {
    const sameAuthorities = one.clientCa === undefined || other.clientCa === undefined
        ? one.clientCa === other.clientCa
        : one.clientCa.equals(other.clientCa);
    return one.cert.equals(other.cert) && one.key.equals(other.key) && sameAuthorities;
}
//# sourceMappingURL=credentials.js.map