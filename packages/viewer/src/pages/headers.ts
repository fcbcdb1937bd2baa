/** The headers of the viewer's pages. */
import { createHash } from 'node:crypto';
import { PAGE_HEADERS } from '@clinical-events/collector/operate/page-headers';
import { STYLE } from '@clinical-events/report/report-page';

/** No script, no image, no frame and nothing from elsewhere; forms go to the viewer alone. */
function policy(styles: string): string {
  return (
    `default-src 'none'; style-src ${styles}; form-action 'self'; base-uri 'none'; ` +
    "frame-ancestors 'none'; img-src 'none'"
  );
}

/** The headers of every page. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': policy("'self'"),
  ...PAGE_HEADERS,
};

/** The page of a report has the report's own style element, which no other text can replace. */
export const REPORT_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': policy(
    `'self' 'sha256-${createHash('sha256').update(STYLE.text).digest('base64')}'`,
  ),
};
