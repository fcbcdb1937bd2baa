/**
 * Sends what costs most, over many connections, each request as soon as the one before is answered, whatever Retry-After
 * says. A process of its own: `argv[2]` says what, a line of standard input ends it, and then a line says how often each
 * status came.
 */
import { connect } from 'node:net';
import { hostileBodies, hostileRequest } from '../lib/hostile-bodies.mjs';

const { connections, kind, ...rest } = JSON.parse(process.argv[2]);
const requests = (connections > 0 ? hostileBodies(kind) : []).map((body) => hostileRequest(rest, body));
const statuses = {};

function open() {
  const socket = connect(rest.port, '127.0.0.1');
  let next = 0;
  let answer = '';
  const send = () => socket.write(requests[next++ % requests.length]);
  socket.on('connect', send);
  socket.on('data', (piece) => {
    answer += piece.latin1Slice();
    if (!answer.endsWith('}')) return;
    const status = answer.slice(9, 12);
    statuses[status] = (statuses[status] ?? 0) + 1;
    answer = '';
    send();
  });
  socket.on('error', () => undefined);
  socket.on('close', () => setTimeout(open, 10));
}
for (let i = 0; i < connections; i++) open();
process.stdin.once('data', () => {
  process.stdout.write(`${JSON.stringify(statuses)}\n`, () => process.exit(0));
});
