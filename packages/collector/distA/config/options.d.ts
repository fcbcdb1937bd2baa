import { type CommandName, type Option, type TextOption } from './option.js';
/**
 * An option's name is `--name` on the command line, `COLLECTOR_NAME` in the environment, `"name"` in the file. Those that
 * only tune are members of one object, `limits`, in the file and in COLLECTOR_LIMITS, and on no command line.
 */
declare const OPTIONS: {
    readonly host: {
        readonly type: "text";
        readonly default: "127.0.0.1";
        readonly help: "address to listen on, and in the curl line of a new key";
        readonly appliesTo: readonly CommandName[];
    };
    readonly port: {
        readonly type: "integer";
        readonly default: 8080;
        readonly min: 0;
        readonly max: 65535;
        readonly help: "port to listen on, and in the curl line of a new key; 0 takes any free one";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'data-dir': {
        readonly type: "path";
        readonly default: "./data";
        readonly help: "directory of everything that is stored";
        readonly appliesTo: readonly CommandName[];
    };
    readonly store: {
        readonly type: "text";
        readonly default: "";
        readonly otherwise: "the data directory";
        readonly help: "postgres://user@host:port,host:port/database when the log is in a database; see docs/guide/scale-out.md";
        readonly appliesTo: readonly CommandName[];
    };
    readonly profile: {
        readonly type: "choice";
        readonly default: "minimum";
        readonly choices: readonly ["minimum", "full"];
        readonly help: "what an event must hold, unless its key says otherwise";
        readonly appliesTo: readonly CommandName[];
        readonly reloadable: true;
    };
    readonly 'max-body-bytes': {
        readonly type: "bytes";
        readonly default: number;
        readonly min: 1024;
        readonly max: number;
        readonly help: "largest event, before and after decompression";
        readonly appliesTo: readonly CommandName[];
    };
    readonly encryption: {
        readonly type: "choice";
        readonly default: "auto";
        readonly choices: readonly ["auto", "on", "off"];
        readonly help: "encrypt payloads: auto does for a new log and goes on as others were begun; on begins it, and it stays on";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'encryption-keys': {
        readonly type: "text";
        readonly default: "";
        readonly otherwise: "`encryption-keys` in the data directory";
        readonly help: "directory of the keys of payloads, and behind commas its mirrors; of a log in a database postgres://…, another database; remembered in the data directory";
        readonly appliesTo: readonly CommandName[];
    };
    readonly kek: {
        readonly type: "text";
        readonly default: "";
        readonly otherwise: "a file `kek` beside the keys";
        readonly help: "what wraps the keys of payloads: file:PATH, or command:PROGRAM that asks a KMS; remembered as well";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'signing-keys': {
        readonly type: "place";
        readonly default: "";
        readonly otherwise: "`signing-keys` in the data directory";
        readonly help: "directory of the keys that sign checkpoints, or command:PROGRAM that signs with a key in a KMS";
        readonly appliesTo: readonly [...CommandName[], "backup", "quarantine"];
    };
    readonly 'log-origin': {
        readonly type: "text";
        readonly default: "";
        readonly otherwise: "`collector/` and the ledger id";
        readonly help: "name of the log in its checkpoints; the first start decides forever";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'checkpoint-interval-ms': {
        readonly type: "duration";
        readonly default: 1000;
        readonly min: 100;
        readonly max: number;
        readonly help: "time between two checkpoints while events arrive";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'checkpoint-sink': {
        readonly type: "list";
        readonly default: "";
        readonly otherwise: "none";
        readonly help: "where each checkpoint goes: dir:, file:, or a witness, comma-separated";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'tls-cert': {
        readonly type: "path";
        readonly default: "";
        readonly otherwise: "none: plain HTTP";
        readonly help: "certificate in PEM, with those that lead to its authority behind it; makes it HTTPS, and the management listener speak it too";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'tls-key': {
        readonly type: "path";
        readonly default: "";
        readonly otherwise: "none";
        readonly help: "private key of the certificate in PEM, without a passphrase";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'tls-client-ca': {
        readonly type: "path";
        readonly default: "";
        readonly otherwise: "none: clients are not asked for one";
        readonly help: "authorities in PEM whose client certificates are accepted";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'tls-client-auth': {
        readonly type: "choice";
        readonly default: "required";
        readonly choices: readonly ["required", "optional"];
        readonly help: "with --tls-client-ca: whether a client without such a certificate is turned away";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'trusted-proxies': {
        readonly type: "list";
        readonly default: "";
        readonly otherwise: "none";
        readonly help: "proxies, as addresses and networks, that are trusted to name the client in the log, comma-separated";
        readonly appliesTo: readonly CommandName[];
    };
    readonly management: {
        readonly type: "choice";
        readonly default: "on";
        readonly choices: readonly ["on", "off"];
        readonly help: "whether to listen for health, metrics and the console, on a port of their own";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'management-host': {
        readonly type: "text";
        readonly default: "127.0.0.1";
        readonly help: "address of the management listener; other than loopback needs --management-token-file, and should have --tls-cert";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'management-port': {
        readonly type: "integer";
        readonly default: 8081;
        readonly min: 0;
        readonly max: 65535;
        readonly help: "port of the management listener; 0 takes any free one";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'management-token-file': {
        readonly type: "path";
        readonly default: "";
        readonly otherwise: "none: everybody on the host may look";
        readonly help: "file with the operator token that the management listener asks for, health aside";
        readonly appliesTo: readonly CommandName[];
    };
    readonly 'log-level': {
        readonly type: "choice";
        readonly default: "info";
        readonly choices: readonly ["trace", "debug", "info", "warn", "error", "fatal", "silent"];
        readonly help: "least severity that is logged; debug and trace also show where an error arose";
        readonly appliesTo: readonly CommandName[];
        readonly reloadable: true;
    };
    readonly 'limits.queue-bytes': {
        readonly type: "bytes";
        readonly default: number;
        readonly min: number;
        readonly max: number;
        readonly help: "events in memory at most, in bytes; beyond it senders are told to retry";
    };
    readonly 'limits.queue-events': {
        readonly type: "integer";
        readonly default: 8192;
        readonly min: 1;
        readonly max: 1000000;
        readonly help: "events in memory at most, in number";
    };
    readonly 'limits.max-connections': {
        readonly type: "integer";
        readonly default: 4096;
        readonly min: 1;
        readonly max: 1000000;
        readonly help: "open connections at most";
        readonly reloadable: true;
    };
    readonly 'limits.headers-timeout-ms': {
        readonly type: "duration";
        readonly default: number;
        readonly min: 100;
        readonly max: number;
        readonly help: "time for a request's headers to arrive";
        readonly reloadable: true;
    };
    readonly 'limits.request-timeout-ms': {
        readonly type: "duration";
        readonly default: number;
        readonly min: 100;
        readonly max: number;
        readonly help: "time for a whole request to arrive, body included";
        readonly reloadable: true;
    };
    readonly 'limits.keep-alive-timeout-ms': {
        readonly type: "duration";
        readonly default: number;
        readonly min: 1000;
        readonly max: number;
        readonly help: "how long a connection may idle between requests";
        readonly reloadable: true;
    };
    readonly 'limits.shutdown-timeout-ms': {
        readonly type: "duration";
        readonly default: number;
        readonly min: 100;
        readonly max: number;
        readonly help: "time to finish what was begun when told to stop";
        readonly reloadable: true;
    };
    readonly 'limits.max-nesting-depth': {
        readonly type: "integer";
        readonly default: 64;
        readonly min: 8;
        readonly max: 1024;
        readonly help: "objects and arrays within each other in an event";
    };
    readonly 'limits.segment-bytes': {
        readonly type: "bytes";
        readonly default: number;
        readonly min: number;
        readonly max: number;
        readonly help: "size at which the log goes on in a new file";
    };
    readonly 'limits.backup-max-age-ms': {
        readonly type: "duration";
        readonly default: number;
        readonly min: 0;
        readonly max: number;
        readonly help: "age of the last `collector backup` from which the console and its alert warn; 0 when back-ups are made otherwise";
        readonly reloadable: true;
    };
};
type Names = typeof OPTIONS;
export type Name = keyof Names;
type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}` ? `${First}${Capitalize<CamelCase<Rest>>}` : Name;
type ValueOf<Declaration extends Option> = Declaration extends {
    readonly choices: readonly (infer Choice)[];
} ? Choice : Declaration extends TextOption ? string : number;
type KeyOf<Name extends string> = CamelCase<Name extends `limits.${infer Member}` ? Member : Name>;
/** Every option's value, by its name in camel case: sizes in bytes, durations in milliseconds. Frozen. */
export type Config = {
    readonly [Each in Name as KeyOf<Each>]: ValueOf<Names[Each]>;
};
export declare const ENTRIES: readonly (readonly [string, Option])[];
/** What an option is called in {@link Config}. */
export declare function keyOf(name: string): keyof Config;
export {};
