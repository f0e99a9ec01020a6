import { createHmac, createSecretKey, hash, type KeyObject } from 'node:crypto';

/**
 * SHA-256 and its HMAC for the signatures of requests, where the SDK hands over the whole of what it signs at once. The SDK's own
 * makes a key object for every signature, from the same key for a day: half of a signature's processor time.
 */
export class Sha256 {
  #data: Uint8Array = new Uint8Array();

  constructor(private readonly secret?: string | ArrayBuffer | ArrayBufferView) {}

  update(data: Uint8Array): void {
    this.#data = this.#data.length === 0 ? data : Buffer.concat([this.#data, data]);
  }

  async digest(): Promise<Uint8Array> {
    const { secret } = this;
    if (secret === undefined) return hash('sha256', this.#data, 'buffer');
    return createHmac('sha256', typeof secret === 'string' ? secret : keyOf(secret))
      .update(this.#data)
      .digest();
  }

  reset(): void {
    this.#data = new Uint8Array();
  }
}

const keys = new WeakMap<object, KeyObject>();

function keyOf(secret: ArrayBuffer | ArrayBufferView): KeyObject {
  let key = keys.get(secret);
  if (!key) {
    key = createSecretKey(bytesOf(secret));
    keys.set(secret, key);
  }
  return key;
}

const bytesOf = (data: ArrayBuffer | ArrayBufferView): Uint8Array =>
  ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
