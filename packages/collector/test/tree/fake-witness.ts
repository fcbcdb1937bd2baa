/**
 * A witness written from the text of C2SP tlog-witness and tlog-cosignature, to check what a
 * sink sends. It parses and checks independently; it shares only rfc-tree.ts of the tests.
 */
import { createHash, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { noteKey, type NoteKey } from '../../src/tree/note-signing.js';
import { sha256 } from '../../../protocol/test/verify/rfc-tree.js';
import { consistencyHolds } from '../tree/rfc-tree.js';

interface Seen {
  size: number;
  root: Buffer;
}

/** Answers instead of the witness; false if the witness answers. */
export type Instead = (response: ServerResponse, body: string) => boolean;

export class FakeWitness {
  readonly key: NoteKey;
  prefix = '';
  /** The cosigned checkpoints, by origin. */
  readonly seen = new Map<string, Seen>();
  /** Raw Ed25519 keys by origin. */
  readonly trusted = new Map<string, KeyOfLog>();
  /** The old sizes of the requests. */
  readonly asked: number[] = [];
  instead: Instead = () => false;
  readonly #private;

  constructor(readonly name = 'witness.example/w1') {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    this.#private = privateKey;
    const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
    const typed = Buffer.concat([Buffer.of(4), raw]);
    const id = createHash('sha256').update(`${name}\n`).update(typed).digest().subarray(0, 4);
    this.key = noteKey(`${name}+${id.toString('hex')}+${typed.toString('base64')}`);
  }

  async listen(): Promise<this> {
    const server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.prefix = `http://127.0.0.1:${(server.address() as AddressInfo).port}/w1`;
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return this;
  }

  /** Takes the log of this verifier key as one to watch. */
  trust(vkey: string): this {
    const [name = '', id = '', ...key] = vkey.split('+');
    const raw = Buffer.from(key.join('+'), 'base64').subarray(1);
    this.trusted.set(name, { id, raw });
    return this;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const body = Buffer.concat(pieces).toString();
    if (this.instead(response, body)) return;
    const known = request.method === 'POST' && request.url === '/w1/add-checkpoint';
    const { status, type, text } = known ? this.#add(body) : { status: 404, type: 'text/plain', text: '' };
    response.writeHead(status, { 'content-type': type }).end(text);
  }

  #add(body: string): { status: number; type: string; text: string } {
    const refused = (status: number) => ({ status, type: 'text/plain', text: 'no' });
    const blank = body.indexOf('\n\n');
    const [old = '', ...lines] = body.slice(0, blank).split('\n');
    const oldSize = /^old (0|[1-9]\d*)$/.exec(old)?.[1];
    if (blank === -1 || oldSize === undefined || lines.length > 63) return refused(400);
    this.asked.push(Number(oldSize));
    const note = body.slice(blank + 2);
    const end = note.lastIndexOf('\n\n') + 1;
    const text = note.slice(0, end);
    const [origin = '', size = '', root64 = ''] = text.split('\n');
    const log = this.trusted.get(origin);
    if (log === undefined) return refused(404);
    if (!signedBy(log, origin, text, note.slice(end + 1))) return refused(403);
    if (Number(oldSize) > Number(size)) return refused(400);
    const seen = this.seen.get(origin) ?? { size: 0, root: sha256() };
    if (Number(oldSize) !== seen.size)
      return { status: 409, type: 'text/x.tlog.size', text: `${seen.size}\n` };
    const root = Buffer.from(root64, 'base64');
    const proof = lines.map((line) => Buffer.from(line, 'base64'));
    const consistent =
      seen.size === 0
        ? proof.length === 0 && (Number(size) > 0 || root.equals(sha256()))
        : consistencyHolds(seen.size, Number(size), seen.root, root, proof);
    if (!consistent) return refused(422);
    this.seen.set(origin, { size: Number(size), root });
    return { status: 200, type: 'text/plain', text: this.cosignature(text) };
  }

  /** A signature line over the text of a checkpoint. */
  cosignature(text: string, time = 1_700_000_000n): string {
    const timestamp = Buffer.alloc(8);
    timestamp.writeBigUInt64BE(time);
    const signature = sign(null, Buffer.from(`cosignature/v1\ntime ${time}\n${text}`), this.#private);
    const id = Buffer.alloc(4);
    id.writeUInt32BE(this.key.keyId);
    return `\u2014 ${this.name} ${Buffer.concat([id, timestamp, signature]).toString('base64')}\n`;
  }
}

interface KeyOfLog {
  readonly id: string;
  readonly raw: Buffer;
}

function signedBy({ id, raw }: KeyOfLog, origin: string, text: string, lines: string): boolean {
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw]);
  const key = createPublicKey({ key: spki, format: 'der', type: 'spki' });
  return lines.split('\n').some((line) => {
    const [mark, name, encoded = ''] = line.split(' ');
    const signature = Buffer.from(encoded, 'base64');
    if (mark !== '\u2014' || name !== origin || signature.toString('hex', 0, 4) !== id) return false;
    return verify(null, Buffer.from(text), key, signature.subarray(4));
  });
}
