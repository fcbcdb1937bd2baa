// The candidates for the dedup index behind one face, each tuned for this use: random 16-byte keys, 8-byte
// values, misses, derived data that need not be durable at every write.
//
//   open(directory, readOnly)  a session:
//     has(ids, at)             whether the id at this offset is there; synchronous
//     put(ids, addresses)      64 ids in one batch; a promise only where the library has nothing synchronous
//     close()
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const ID_BYTES = 16;

/** A module of the folder that the candidates are installed in; the project itself depends on none of them. */
function installed(folder, name) {
  return import(pathToFileURL(createRequire(path.join(path.resolve(folder), 'x.js')).resolve(name)));
}

function keyAt(ids, at) {
  return ids.subarray(at, at + ID_BYTES);
}

function valueOf(address) {
  const value = Buffer.alloc(8);
  value.writeDoubleLE(address);
  return value;
}

/** The loop without an index: what Node and the ids themselves take. */
const none = {
  configuration: 'no index: the cost of the loop itself',
  open: async () => ({ has: () => false, put: () => undefined, close: () => undefined }),
};

const own = {
  configuration: 'tables of 131,072 entries, filters of 10 bits, fan-out 4, all defaults',
  async open(directory, readOnly) {
    const from = new URL('../../packages/collector/dist/store/embedded/id-index/', import.meta.url);
    const { IdIndex } = await import(new URL('id-index.js', from));
    const { IdIndexReader } = await import(new URL('id-index-reader.js', from));
    const index = readOnly ? IdIndexReader.read({ directory }) : IdIndex.open({ directory });
    const candidates = [];
    return {
      has(ids, at) {
        index.fingerprint('default', ids, at);
        return index.find(index.hi, index.lo, candidates) > 0;
      },
      put(ids, addresses) {
        for (let i = 0; i < addresses.length; i++) {
          index.fingerprint('default', ids, i * ID_BYTES);
          index.add(index.hi, index.lo, addresses[i]);
        }
        index.commit(addresses.at(-1) + 1);
      },
      close: () => index.close(),
      stats: () => index.stats(),
    };
  },
};

const classicLevel = {
  configuration: 'block cache 32 MiB, write buffer 16 MiB, files of 8 MiB, no compression, sync off',
  async open(directory, readOnly, folder) {
    const { ClassicLevel } = await installed(folder, 'classic-level');
    if (readOnly) throw new Error('no read-only mode: a second process cannot take the lock');
    const db = new ClassicLevel(directory, {
      keyEncoding: 'buffer',
      valueEncoding: 'buffer',
      cacheSize: 32 << 20,
      writeBufferSize: 16 << 20,
      maxFileSize: 8 << 20,
      compression: false,
    });
    await db.open();
    return {
      has: (ids, at) => db.getSync(keyAt(ids, at)) !== undefined,
      put(ids, addresses) {
        const batch = db.batch();
        for (let i = 0; i < addresses.length; i++) batch.put(keyAt(ids, i * ID_BYTES), valueOf(addresses[i]));
        return batch.write();
      },
      close: () => db.close(),
    };
  },
};

const rocksdb = {
  configuration: 'block cache 32 MiB, write buffer 16 MiB, no write-ahead log, one background thread',
  async open(directory, readOnly, folder) {
    const { RocksDatabase } = await installed(folder, '@harperfast/rocksdb-js');
    RocksDatabase.config({ blockCacheSize: 32 << 20 });
    const db = RocksDatabase.open(directory, {
      disableWAL: true,
      keyEncoding: 'binary',
      encoding: 'binary',
      writeBufferSize: 16 << 20,
      maxWriteBufferNumber: 3,
      parallelismThreads: 1,
      readOnly,
    });
    return {
      has: (ids, at) => db.getBinarySync(keyAt(ids, at)) !== undefined,
      put(ids, addresses) {
        for (let i = 0; i < addresses.length; i++)
          db.putSync(keyAt(ids, i * ID_BYTES), valueOf(addresses[i]));
      },
      close() {
        if (!readOnly) db.flushSync();
        db.close();
      },
    };
  },
};

const lmdb = {
  configuration: 'noSync (a power cut may break it unnoticed), one synchronous transaction a batch, no cache',
  async open(directory, readOnly, folder) {
    const { open } = await installed(folder, 'lmdb');
    const db = open(path.join(directory, 'data.mdb'), {
      keyEncoding: 'binary',
      encoding: 'binary',
      noSync: true,
      overlappingSync: false,
      mapSize: 4 * 2 ** 30,
      readOnly,
    });
    return {
      has: (ids, at) => db.getBinaryFast(keyAt(ids, at)) !== undefined,
      put(ids, addresses) {
        db.transactionSync(() => {
          for (let i = 0; i < addresses.length; i++)
            db.putSync(keyAt(ids, i * ID_BYTES), valueOf(addresses[i]));
        });
      },
      close: () => db.close(),
    };
  },
};

const sqlite = {
  configuration: 'WITHOUT ROWID, WAL, synchronous OFF, page cache 64 MiB, checkpoint every 4,000 pages',
  async open(directory, readOnly) {
    const { DatabaseSync } = await import('node:sqlite');
    const db = new DatabaseSync(path.join(directory, 'ids.sqlite'), { readOnly });
    if (!readOnly) {
      db.exec(
        'PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 4000;' +
          'CREATE TABLE IF NOT EXISTS ids (id BLOB PRIMARY KEY, address INTEGER NOT NULL) WITHOUT ROWID, STRICT;',
      );
    }
    db.exec('PRAGMA cache_size = -65536');
    const select = db.prepare('SELECT address FROM ids WHERE id = ?');
    const insert = readOnly ? null : db.prepare('INSERT INTO ids VALUES (?, ?)');
    return {
      has: (ids, at) => select.get(keyAt(ids, at)) !== undefined,
      put(ids, addresses) {
        db.exec('BEGIN');
        for (let i = 0; i < addresses.length; i++) insert.run(keyAt(ids, i * ID_BYTES), addresses[i]);
        db.exec('COMMIT');
      },
      close: () => db.close(),
    };
  },
};

export const candidates = {
  none,
  own,
  'classic-level': classicLevel,
  'rocksdb-js': rocksdb,
  lmdb,
  'node:sqlite': sqlite,
};
