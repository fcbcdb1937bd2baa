/** An option, a file or a directory that a person has named cannot be used. The message says why; exit code 2. */
export class Unusable extends Error {
  override name = 'Unusable';
}
