declare module 'pgpass' {
  /** Calls back with the password in the file of PGPASSFILE, or `~/.pgpass`, for a host, port, database and user. */
  export default function passwordFile(wanted: object, found: (password: string | undefined) => void): void;
}
