/** An option, file or directory named by a person cannot be used. The message explains why; exit code 2. */
export class Unusable extends Error {
  override name = 'Unusable';
}
