import { expect, test } from 'vitest';
import { VerifyFindings } from '../../src/commands/verify/verify-findings.js';

test('[R-907] a log is intact when it was seen to be, and not because nothing was found', () => {
  const findings = new VerifyFindings();
  expect(findings.intact).toBe(false);
  findings.confirm();
  findings.add({ kind: 'note', message: 'something of no weight' });
  expect(findings.intact).toBe(true);
  findings.unlisted = 1;
  expect(findings.intact).toBe(false);
  findings.unlisted = 0;
  findings.add({ kind: 'altered', message: 'something' });
  expect(findings.intact).toBe(false);
});
