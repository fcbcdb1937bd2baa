/** The bench cannot begin (exit code 2). The message is one line with the remedy. */
export class Unusable extends Error {
  name = 'Unusable';
}
