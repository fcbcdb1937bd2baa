/** The ledger's thread: puts the embedded store and its tree under the group commit, and tells the main thread how they fare. */
import { parentPort, workerData } from 'node:worker_threads';
import { LedgerCounters } from '../../ledger/ledger-counters.js';
import { Ledger } from '../../ledger/ledger.js';
import { RingReader } from '../../ledger/ring.js';
import { openLedger, reasonOf, refusalOf, refusedBecause, } from './open-ledger.js';
/** Someone waits for what is asked for, and no event does. */
const LIFECYCLE_EVERY_MS = 1000;
async function main(port, data) {
    const say = (message) => port.postMessage(message);
    const counters = new LedgerCounters(data.counters);
    let troubleSince;
    let opened;
    try {
        opened = await openLedger(data, {
            onTrouble: (what, reason) => say({ type: 'trouble', what, reason }),
            onAlarm: (about, what, reason) => say({ type: 'alarm', about, what, reason }),
            onNotice: (message) => say({ type: 'notice', message }),
            onCheckpoint: (note) => say({ type: 'checkpoint', note }),
            onCheckpointTrouble(trouble) {
                if (trouble?.since === troubleSince)
                    return;
                troubleSince = trouble?.since;
                say({ type: 'checkpoint-trouble', trouble });
            },
            onFlushed(milliseconds, held) {
                counters.flushed(milliseconds);
                counters.holds(held);
            },
            onHeld: (held) => counters.holds(held),
            gauges: counters,
        });
    }
    catch (error) {
        say({ type: 'refused', because: refusalOf(error), reason: refusedBecause(error) });
        return;
    }
    const { store, sequencer } = opened;
    const { ring, answers } = data.queue;
    counters.holds(opened.opened);
    const ledger = new Ledger({
        store,
        sequencer,
        ring: new RingReader(ring, answers),
        doorbell: new Int32Array(ring.doorbell),
        maxDepth: data.maxDepth,
        counters,
        onState: (state, cause, because) => say({ type: 'state', state, reason: cause === undefined ? '' : reasonOf(cause), because }),
    });
    const accessLog = opened.accessLog((entry) => ledger.append(entry)).start(data.checkpointIntervalMs);
    const lifecycle = opened.lifecycle((entry) => ledger.append(entry)).start(LIFECYCLE_EVERY_MS);
    const stop = async () => {
        // Neither rejects; what the last reading has added is still stored.
        await lifecycle.close();
        await accessLog.close();
        ledger.stop();
    };
    // Listening also keeps the thread alive while the ledger sleeps.
    port.on('message', (request) => {
        if (request === 'stop')
            stop().catch(() => undefined);
        else
            say({ type: 'report', index: opened.index(), privacy: lifecycle.state });
    });
    // Before anyone is told that it is open: a load balancer would send events that are all refused.
    await ledger.proveKeys();
    say({ type: 'opened', opened: opened.opened });
    await ledger.run();
    say({ type: 'closed' });
    port.close();
    answers.close();
}
if (parentPort)
    await main(parentPort, workerData);
//# sourceMappingURL=ledger-thread.js.map