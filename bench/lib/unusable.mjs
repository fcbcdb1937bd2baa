/** The bench cannot begin; the message is one line that says what to do. Ends with exit code 2. */
export class Unusable extends Error {
  name = 'Unusable';
}
