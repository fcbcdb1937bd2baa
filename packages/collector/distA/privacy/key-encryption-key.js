/**
 * The key that wraps the epoch keys of a key directory (KEK): in a file, or behind a program that asks a KMS, an HSM or a
 * vault. It is asked once for each epoch at a start, never for an event.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { systemCode } from '../system-code.js';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const COMMAND_MS = 10_000;
/** More than any KMS makes of 32 bytes. */
const MOST_WRAPPED_BYTES = 64 << 10;
/** The key cannot be had, or does not open what it should. The message names a place, never a key. */
export class KekFault extends Error {
    name = 'KekFault';
}
/** Why this names no key; undefined when it does, which is not looked at. */
export function kekFault(kek) {
    return /^(?:file|command):\/./.test(kek)
        ? undefined
        : 'must be file: or command: and an absolute path, as in file:/etc/collector/kek';
}
/**
 * @param kek `file:` and the path of 32 random bytes in base64, or `command:` and that of a program which is given `wrap`
 *   or `unwrap`, reads base64 and prints base64.
 * @throws KekFault when the file holds no such key, or others may read it.
 */
export function openKek(kek) {
    const [, kind, place = ''] = /^(file|command):(.*)$/s.exec(kek) ?? [];
    return kind === 'command' ? new CommandKek(place) : new FileKek(place);
}
/** What a file of a new key holds. */
export function newKekFile() {
    return Buffer.from(`${randomBytes(KEY_BYTES).toString('base64')}\n`);
}
/** Whether the content of a file is a key. */
export function isKekFile(content) {
    return keyIn(content.toString('latin1')) !== undefined;
}
function keyIn(content) {
    const text = content.trim();
    const key = Buffer.from(text, 'base64');
    return key.length === KEY_BYTES && key.toString('base64') === text ? key : undefined;
}
class FileKek {
    file;
    #key;
    constructor(file) {
        this.file = file;
        let text;
        try {
            const { mode } = fs.statSync(file);
            if ((mode & 0o077) !== 0)
                throw new KekFault(`${file}: others than its owner may read it (chmod 600)`);
            text = fs.readFileSync(file, 'latin1');
        }
        catch (error) {
            if (error instanceof KekFault)
                throw error;
            throw new KekFault(`${file} cannot be read (${systemCode(error) ?? 'UNKNOWN'})`);
        }
        const key = keyIn(text);
        if (key === undefined)
            throw new KekFault(`${file} holds no key: 32 bytes in base64, as openssl rand -base64 32 prints them`);
        this.#key = createSecretKey(key);
    }
    wrap(key) {
        const nonce = randomBytes(NONCE_BYTES);
        const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
        const sealed = Buffer.concat([cipher.update(key), cipher.final()]);
        return Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64');
    }
    wrapLater(key) {
        return Promise.resolve(this.wrap(key));
    }
    unwrap(wrapped) {
        const bytes = Buffer.from(wrapped, 'base64');
        if (bytes.length !== NONCE_BYTES + KEY_BYTES + TAG_BYTES)
            throw this.#unfit();
        const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, NONCE_BYTES));
        decipher.setAuthTag(bytes.subarray(NONCE_BYTES + KEY_BYTES));
        try {
            const sealed = bytes.subarray(NONCE_BYTES, NONCE_BYTES + KEY_BYTES);
            return Buffer.concat([decipher.update(sealed), decipher.final()]);
        }
        catch {
            throw this.#unfit();
        }
    }
    #unfit() {
        return new KekFault(`${this.file} is not the key that the payload keys are wrapped by`);
    }
}
class CommandKek {
    program;
    constructor(program) {
        this.program = program;
    }
    wrap(key) {
        const wrapped = this.#wrappedIn(this.#run('wrap', key.toString('base64')));
        this.#assertSame(key, this.unwrap(wrapped));
        return wrapped;
    }
    async wrapLater(key) {
        const wrapped = this.#wrappedIn(await this.#runLater('wrap', key.toString('base64')));
        this.#assertSame(key, this.#keyIn(await this.#runLater('unwrap', wrapped)));
        return wrapped;
    }
    unwrap(wrapped) {
        return this.#keyIn(this.#run('unwrap', wrapped));
    }
    #wrappedIn(printed) {
        if (printed === '')
            throw new KekFault(`${this.program} printed nothing (wrap)`);
        return printed;
    }
    #keyIn(printed) {
        const key = Buffer.from(printed, 'base64');
        if (key.length !== KEY_BYTES)
            throw new KekFault(`${this.program} did not print the base64 of a key of ${KEY_BYTES} bytes (unwrap)`);
        return key;
    }
    #assertSame(key, unwrapped) {
        if (!unwrapped.equals(key))
            throw new KekFault(`${this.program} unwraps another key than it wrapped, and nothing was put under it`);
    }
    #run(verb, input) {
        const { status, error, stdout } = spawnSync(this.program, [verb], {
            ...{ input: `${input}\n`, timeout: COMMAND_MS, killSignal: 'SIGKILL', maxBuffer: MOST_WRAPPED_BYTES },
            ...{ stdio: ['pipe', 'pipe', 'ignore'], encoding: 'latin1', windowsHide: true },
        });
        return this.#told(verb, status, systemCode(error), stdout);
    }
    async #runLater(verb, input) {
        const child = spawn(this.program, [verb], {
            ...{ timeout: COMMAND_MS, killSignal: 'SIGKILL', stdio: ['pipe', 'pipe', 'ignore'], windowsHide: true },
        });
        let stdout = '';
        let code;
        child.stdout.setEncoding('latin1').on('data', (text) => {
            stdout += text;
            if (stdout.length <= MOST_WRAPPED_BYTES)
                return;
            code = 'ENOBUFS';
            child.kill('SIGKILL');
        });
        // One that ends without reading what it is given.
        child.stdin.on('error', () => undefined).end(`${input}\n`);
        const status = await new Promise((resolve) => {
            child.on('error', (error) => {
                code = systemCode(error) ?? 'UNKNOWN';
                resolve(null);
            });
            child.on('close', (exitCode, signal) => {
                code ??= signal === null ? undefined : 'ETIMEDOUT';
                resolve(exitCode);
            });
        });
        return this.#told(verb, status, code, stdout);
    }
    #told(verb, status, code, stdout) {
        // A program may end without reading what it is given: its output tells.
        if (status === 0 && (code === undefined || code === 'EPIPE'))
            return stdout.replace(/\s/g, '');
        const how = status !== null && status !== 0
            ? `ended with exit code ${status}`
            : code === 'ETIMEDOUT'
                ? `did not end within ${COMMAND_MS / 1000} s`
                : code === 'ENOBUFS'
                    ? 'prints more than any wrapped key needs'
                    : `cannot be started (${code ?? 'UNKNOWN'})`;
        throw new KekFault(`${this.program} ${how} (${verb})`);
    }
}
//# sourceMappingURL=key-encryption-key.js.map