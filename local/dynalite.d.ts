declare module 'dynalite' {
  import type { Server } from 'node:http';

  /** A DynamoDB server, in memory when no path is given. */
  export default function dynalite(options?: {
    /** How long a table stays CREATING, in milliseconds. @default 500 */
    createTableMs?: number;
    deleteTableMs?: number;
    updateTableMs?: number;
  }): Server;
}
