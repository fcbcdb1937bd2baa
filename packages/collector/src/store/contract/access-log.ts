/** The contract of an access log, in which readings of events are logged. */

/** A position to read from: the number of whole lines before it, and a hint of the driver. */
export interface LineCursor {
  readonly lines: number;
  readonly at: number;
  /** The file of a log on this host; by default the first. */
  readonly file?: string;
}

export interface AccessLogStore {
  /**
   * Appends a line durably. Other processes append too. A log on this host ({@link LocalAccessLog}) works
   * synchronously, because the end of a reading is logged while the process exits.
   * @param line without a line feed.
   */
  append(line: string): void | Promise<void>;
  /**
   * Yields the text from a line on up to the current end, in pieces, each valid until the next one. Each line
   * ends with a line feed; bytes after the last line feed are torn or being written.
   * @param from by default the first line.
   * @throws {@link AccessLogAltered} if no line begins there any more; {@link AccessLogUnfit}.
   */
  lines(from?: LineCursor): AsyncGenerator<Buffer, void>;
  /** The names of the files that exist, ordered by their years; undefined if the log is never divided. */
  files?(): readonly string[];
  /** For a log in a database: the role that wrote a line, if known. */
  writerOf?(line: number): Promise<string | undefined>;
  /**
   * Makes all lines durable that could be read before the call.
   * @param file of a log on this host; by default the first.
   */
  flush(file?: string): Promise<void>;
}

/** An access log on this host: a line is durable when `append` returns. */
export interface LocalAccessLog extends AccessLogStore {
  append(line: string): void;
}

/** Thrown if a file of the access log is not a regular file. The message names it. */
export class AccessLogUnfit extends Error {
  override name = 'AccessLogUnfit';
}

/** Thrown if the access log is not the one that was read before. The message describes the difference. */
export class AccessLogAltered extends Error {
  override name = 'AccessLogAltered';
}
