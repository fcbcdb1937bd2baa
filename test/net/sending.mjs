// Requests on one connection, in order. With a window larger than one they are pipelined.
import net from 'node:net';

/**
 * @param keyOf returns the API key for the name of a key. @returns the answers in the order of the requests.
 * A connection that ends before all answers are there is reopened for the rest.
 */
export async function send(port, requests, keyOf, window) {
  const answers = [];
  while (answers.length < requests.length) {
    const before = answers.length;
    await onOneConnection(port, requests, keyOf, window, answers);
    if (answers.length === before) throw new Error(`request ${before} has no answer`);
  }
  return answers;
}

function onOneConnection(port, requests, keyOf, window, answers) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1');
    let sent = answers.length;
    let rest = Buffer.alloc(0);
    const fill = () => {
      const texts = [];
      while (sent < requests.length && sent - answers.length < window)
        texts.push(...wire(requests[sent++], keyOf));
      if (texts.length > 0) socket.write(Buffer.concat(texts));
    };
    socket.setNoDelay(true);
    socket.on('connect', fill);
    socket.on('error', reject);
    socket.on('close', resolve);
    socket.on('data', (piece) => {
      rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      for (let answer = parse(rest); answer !== undefined; answer = parse(rest)) {
        rest = rest.subarray(answer.bytes);
        answers.push(answer);
      }
      if (answers.length === requests.length) socket.end();
      else fill();
    });
  });
}

function wire({ kind, body, key, method = 'POST', headers = {} }, keyOf) {
  const all = {
    Host: '127.0.0.1',
    ...(key !== null && { 'X-API-Key': keyOf(key) }),
    'Content-Type': 'application/json',
    'Content-Length': body.length,
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return [Buffer.from(`${method} /event/${kind} HTTP/1.1\r\n${lines.join('')}\r\n`), body];
}

/** The first answer of what has arrived, once it is whole. */
function parse(bytes) {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [line, ...fields] = bytes.latin1Slice(0, end).split('\r\n');
  const headers = Object.fromEntries(
    fields.map((field) => [
      field.slice(0, field.indexOf(':')).toLowerCase(),
      field.slice(field.indexOf(':') + 2),
    ]),
  );
  const length = Number(headers['content-length'] ?? 0);
  if (bytes.length < end + 4 + length) return undefined;
  const body = bytes.toString('utf8', end + 4, end + 4 + length);
  return { status: Number(line.slice(9, 12)), headers, body, bytes: end + 4 + length };
}

/** The promised part of an answer: no sentence, and no value that differs each time. */
export function promised({ status, headers, body }) {
  let code, issues;
  try {
    const read = JSON.parse(body);
    code = read.code ?? read.status;
    issues = read.details?.issues?.map((issue) => ({ ...issue, message: undefined }));
  } catch {
    code = body === '' ? undefined : 'no JSON';
  }
  return {
    status,
    code,
    allow: headers.allow,
    retry: headers['retry-after'] !== undefined || undefined,
    issues,
  };
}
