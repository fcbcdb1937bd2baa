/** A directory in one compressed file, and the text of a database. */
import fs from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, brotliDecompressSync } from 'node:zlib';

interface Packed {
  readonly path: string;
  readonly mode: number;
  /** The size of a file, with the zeros at its end. */
  readonly size?: number;
  /** The contents of a file in Base64, without the zeros at the end. */
  readonly contents?: string;
}

export function pack(directory: string, file: string): void {
  const entries = fs
    .readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .sort()
    .flatMap((name): Packed[] => {
      const place = path.join(directory, name);
      const stats = fs.lstatSync(place);
      const packed = { path: name.replaceAll(path.sep, '/'), mode: stats.mode & 0o777 };
      if (stats.isDirectory()) return [packed];
      // A socket or a lock of a program that has ended.
      if (!stats.isFile()) return [];
      const bytes = fs.readFileSync(place);
      const end = bytes.findLastIndex((byte) => byte !== 0) + 1;
      return [{ ...packed, size: bytes.length, contents: bytes.toString('base64', 0, end) }];
    });
  fs.writeFileSync(file, brotliCompressSync(JSON.stringify(entries)));
}

/** The text of a compressed file. */
export function unpackText(file: string): string {
  return brotliDecompressSync(fs.readFileSync(file)).toString();
}

/** Unpacks into a new directory. */
export function unpack(file: string, directory: string): void {
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
  const entries = JSON.parse(unpackText(file)) as readonly Packed[];
  for (const { path: name, mode, size, contents } of entries) {
    const place = path.join(directory, name);
    if (contents === undefined) fs.mkdirSync(place, { mode });
    else {
      fs.writeFileSync(place, contents, { encoding: 'base64', mode });
      fs.truncateSync(place, size);
    }
  }
}

type Query = (sql: string) => Promise<readonly Record<string, unknown>[]>;

const TABLES = `SELECT c.oid::regclass::text AS name FROM pg_class c
  WHERE c.relkind = 'r' AND c.relnamespace = 'SCHEMA'::regnamespace ORDER BY 1`;
const SEQUENCES = `SELECT format('SELECT setval(%L, %s);', schemaname || '.' || sequencename, last_value) AS line
  FROM pg_sequences WHERE schemaname = 'SCHEMA' AND last_value IS NOT NULL ORDER BY 1`;
const ROWS = `SELECT format('INSERT INTO TABLE OVERRIDING SYSTEM VALUE SELECT (%L::TABLE).*;', row) AS line
  FROM TABLE AS row ORDER BY 1`;

/**
 * SQL that makes a schema again in an empty database, like pg_dump, which the servers of the tests lack.
 * @param log of a server that ran with `log_statement = ddl` since the schema was made in it.
 */
export async function dump(query: Query, log: string, schema: string): Promise<string> {
  const statements = [...log.matchAll(/^LOG: {2}(?:statement|execute [^:]*): (.*(?:\n\t.*)*)/gm)].map(
    ([, text = '']) => `${text.replaceAll('\n\t', '\n').replace(/;\s*$/, '')};`,
  );
  const lines: unknown[] = [];
  for (const { name } of await query(TABLES.replace('SCHEMA', schema)))
    lines.push(...(await query(ROWS.replaceAll('TABLE', String(name)))).map(({ line }) => line));
  lines.push(...(await query(SEQUENCES.replace('SCHEMA', schema))).map(({ line }) => line));
  const begin = `SET search_path = ${schema};`;
  const [create = '', ...rest] = statements;
  return [create, begin, ...rest, 'SET session_replication_role = replica;', ...lines, ''].join('\n');
}
