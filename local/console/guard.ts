import type { IncomingMessage } from 'node:http';

/** Why a request is not served, with the HTTP status that says so. */
export interface Refusal {
  readonly status: number;
  readonly problem: string;
}

/**
 * The page can move (test) money and kill processes, and any web page that is open in the same browser can send requests
 * to this machine. So it serves only what names it as its host, which a rebound DNS name does not, and does only
 * what its own page asks for. https://owasp.org/www-community/attacks/csrf
 */
export function refusalOf({ method = '', headers }: IncomingMessage, port: number): Refusal | undefined {
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`];
  const host = headers.host?.toLowerCase() ?? '';
  if (!hosts.includes(host)) return { status: 403, problem: `The Host must be ${hosts.join(' or ')}.` };
  if (method === 'GET' || method === 'HEAD') return undefined;
  if (headers.origin !== `http://${host}`)
    return {
      status: 403,
      problem: `The Origin must be http://${host}: only the page itself may ask for this.`,
    };
  return undefined;
}

/** On every answer. Nothing but the page's own files runs, and no other page may embed it or read from it. */
export const securityHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
} as const;
