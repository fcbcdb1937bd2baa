/** The thread that offers the access socket: an append waits for the disk, and must delay no event. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { messageOf } from '../../system-code.js';
import { offerAccessSocket } from '../access-socket.js';

/** Messages of the thread. `break-glass`: such a look was logged. After `refused` the thread ends. */
export type AccessSocketMessage =
  | { readonly type: 'offered' }
  | { readonly type: 'break-glass' }
  | { readonly type: 'refused'; readonly reason: string };

async function main(port: MessagePort, dataDir: string): Promise<void> {
  const say = (message: AccessSocketMessage) => port.postMessage(message);
  try {
    const socket = await offerAccessSocket(dataDir, () => say({ type: 'break-glass' }));
    port.once('message', () => {
      socket
        .close()
        .finally(() => port.close())
        .catch(() => undefined);
    });
    say({ type: 'offered' });
  } catch (error) {
    say({ type: 'refused', reason: messageOf(error) });
    port.close();
  }
}

if (parentPort) await main(parentPort, workerData as string);
