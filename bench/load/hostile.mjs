/**
 * Sends expensive bodies over many connections, each as soon as the previous one is answered, without respect
 * for Retry-After. A process of its own: `argv[2]` has the settings, a line on standard input ends it, and it
 * prints the number of answers by status.
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
