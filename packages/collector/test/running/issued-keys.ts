/** API keys made in this process, where a test needs many of them or ones that the command would not make. */
import { createKey, type Grants } from '../../src/access/issuing.js';
import { KeyDatabase } from '../../src/store/embedded/key-database.js';

/** @param issuedAt milliseconds since 1970; in the past for a key that has expired by now. */
export async function issueKey(
  dataDir: string,
  grants: Partial<Grants> = {},
  issuedAt = Date.now(),
): Promise<{ text: string; keyId: string }> {
  const keys = KeyDatabase.open(dataDir);
  try {
    const issued = await createKey(
      keys,
      { organisation: 'default', permissions: 'all', ...grants },
      issuedAt,
    );
    return { text: issued.text, keyId: issued.key.keyId };
  } finally {
    await keys.close();
  }
}
