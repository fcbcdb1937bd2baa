/** Why the keys of the log cannot be used, or not be changed. */

/**
 * `no-log`: nothing was ever signed here. `key-missing`: a private key is not where it should be. `broken`: what is
 * there contradicts itself. `overlapping`: the overlap of an earlier rotation lasts. `overtaken`: another rotation came
 * first. In the last two nothing was changed.
 */
export type SigningKeyFaultReason = 'no-log' | 'key-missing' | 'broken' | 'overlapping' | 'overtaken';

/**
 * The message is for the operator: one line that names the file, and never holds anything of a private key. There is no
 * cause, which would say the same once more.
 */
export class SigningKeyFault extends Error {
  override name = 'SigningKeyFault';
  constructor(
    readonly reason: SigningKeyFaultReason,
    message: string,
  ) {
    super(message);
  }
}
