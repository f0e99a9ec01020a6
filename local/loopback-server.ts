import { once } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';

/**
 * Listens on 127.0.0.1 and nowhere else.
 * @param port 0: any free one
 * @returns the port that it got
 * @throws when the port is taken
 */
export async function listenOnLoopback(server: Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('The server listens on no port.');
  return address.port;
}

/** Ends a server and every connection that is open. */
export async function closeServer(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

/** How many connections clients have open to a server. */
export function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}

/** A request's body; undefined when it has more bytes than that, which are read and not kept. */
export async function bodyWithin(request: IncomingMessage, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    const part = Buffer.from(chunk);
    bytes += part.length;
    if (bytes <= maxBytes) chunks.push(part);
  }
  return bytes <= maxBytes ? Buffer.concat(chunks) : undefined;
}
