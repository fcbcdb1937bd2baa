/**
 * The two things that take cryptography, by the interface that Node and browsers share (Web Cryptography).
 * Browsers offer it to pages from https and from the local host, and Ed25519 since 2025.
 */

/** This runtime has no Web Cryptography, or none with Ed25519. Says nothing of what was to be checked. */
export class CryptographyMissing extends Error {
  override name = 'CryptographyMissing';
}

function subtle(): typeof globalThis.crypto.subtle {
  // Not there in a page that came over plain HTTP, whatever the type says.
  const { crypto } = globalThis as { crypto?: Partial<typeof globalThis.crypto> };
  if (crypto?.subtle === undefined) {
    throw new CryptographyMissing('there is no Web Cryptography here; a page must come by https');
  }
  return crypto.subtle;
}

/** The parts one behind the other, in memory of their own, as no other may be handed over (it may be shared). */
function concatenate(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * SHA-256 of the parts, one behind the other.
 * @throws CryptographyMissing
 */
export async function sha256(...parts: readonly Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await subtle().digest('SHA-256', concatenate(...parts)));
}

/**
 * Whether the signature over the message is that of the key (RFC 8032). False, too, for bytes that cannot be
 * a key or a signature.
 * @throws CryptographyMissing
 */
export async function ed25519Holds(
  publicKey: Uint8Array,
  signature: Uint8Array,
  message: Uint8Array,
): Promise<boolean> {
  const algorithm = { name: 'Ed25519' };
  const cryptography = subtle();
  try {
    const key = await cryptography.importKey('raw', concatenate(publicKey), algorithm, false, ['verify']);
    return await cryptography.verify(algorithm, key, concatenate(signature), concatenate(message));
  } catch (error) {
    if (error instanceof Error && error.name === 'NotSupportedError') {
      throw new CryptographyMissing('there is no Ed25519 in the Web Cryptography here', { cause: error });
    }
    return false;
  }
}
