import { EventEmitter } from 'node:events';
import https from 'node:https';
import { Readable } from 'node:stream';
import type { OwnTime } from './own-time';

/** Stripe in memory, as far as the two consumers use it: it creates PaymentIntents, and repeats an answer under its key. */
export class MemoryProvider {
  /** What a call takes. */
  delayMs = 0;
  #calls = 0;
  #created = 0;
  readonly #answers = new Map<string, string>();

  constructor(private readonly ownTime: OwnTime) {}

  /** Calls since the last time. */
  takeCalls(): number {
    const calls = this.#calls;
    this.#calls = 0;
    return calls;
  }

  /** Forgets its keys. */
  clear(): void {
    this.#answers.clear();
  }

  /** Our worker calls Stripe by `fetch`, the stock consumer by `https`, as Stripe's SDK does by itself: both end here. */
  install(): void {
    globalThis.fetch = async (_url, init) => {
      const key = new Headers(init?.headers).get('idempotency-key') ?? '';
      const answer = await this.#answer(key, String(init?.body ?? ''));
      return new Response(answer.text, { status: 200, headers: answer.headers });
    };
    Object.assign(https, {
      request: (options: { headers: Record<string, string> }) =>
        new MemoryRequest((body) => this.#answer(options.headers['Idempotency-Key'] ?? '', body)),
    });
  }

  async #answer(key: string, body: string) {
    const answer = this.ownTime.of(() => {
      this.#calls += 1;
      const saved = this.#answers.get(key);
      const text = saved ?? this.#create(new URLSearchParams(body));
      this.#answers.set(key, text);
      return { text, headers: headersOf(saved !== undefined) };
    });
    await new Promise((resolve) =>
      this.delayMs > 0 ? setTimeout(resolve, this.delayMs) : setImmediate(resolve),
    );
    return answer;
  }

  #create(params: URLSearchParams): string {
    this.#created += 1;
    const id = `pi_3Bench${String(this.#created).padStart(15, '0')}`;
    const metadata: Record<string, string> = {};
    for (const [name, value] of params) {
      const [, field] = name.match(/^metadata\[(.+)\]$/) ?? [];
      if (field !== undefined) metadata[field] = value;
    }
    const amount = Number(params.get('amount'));
    return JSON.stringify({
      ...intent,
      id,
      amount,
      amount_received: amount,
      client_secret: `${id}_secret_0123456789abcdefghijklmno`,
      currency: params.get('currency'),
      customer: params.get('customer'),
      latest_charge: id.replace('pi_', 'ch_'),
      metadata,
      payment_method: params.get('payment_method'),
    });
  }
}

/** What Node's `https.request` returns, as far as Stripe's SDK uses it. */
class MemoryRequest extends EventEmitter {
  #body = '';

  constructor(private readonly answer: (body: string) => Promise<{ text: string; headers: object }>) {
    super();
  }

  setTimeout(): this {
    return this;
  }

  write(data: string): void {
    this.#body += data;
  }

  end(): void {
    this.answer(this.#body).then(({ text, headers }) => {
      const response = Readable.from([Buffer.from(text)], { objectMode: false });
      this.emit('response', Object.assign(response, { statusCode: 200, headers, complete: true }));
    });
  }
}

const headersOf = (isReplay: boolean) => ({
  'content-type': 'application/json',
  'request-id': 'req_Bench0123456789',
  'stripe-version': '2026-10-28.endive',
  ...(isReplay && { 'idempotent-replayed': 'true' }),
});

/** The fields that are the same for all. https://docs.stripe.com/api/payment_intents/object */
const intent = {
  id: '',
  object: 'payment_intent',
  amount: 0,
  amount_capturable: 0,
  amount_details: { tip: {} },
  amount_received: 0,
  application: null,
  application_fee_amount: null,
  automatic_payment_methods: { allow_redirects: 'always', enabled: true },
  canceled_at: null,
  cancellation_reason: null,
  capture_method: 'automatic_async',
  client_secret: '',
  confirmation_method: 'automatic',
  created: 1_764_466_800,
  currency: 'usd',
  customer: null,
  description: null,
  last_payment_error: null,
  latest_charge: null,
  livemode: false,
  metadata: {},
  next_action: null,
  on_behalf_of: null,
  payment_method: null,
  payment_method_configuration_details: { id: 'pmc_1Bench0123456789', parent: null },
  payment_method_options: {
    card: { installments: null, mandate_options: null, network: null, request_three_d_secure: 'automatic' },
    link: { persistent_token: null },
  },
  payment_method_types: ['card', 'link'],
  processing: null,
  receipt_email: null,
  review: null,
  setup_future_usage: null,
  shipping: null,
  source: null,
  statement_descriptor: null,
  statement_descriptor_suffix: null,
  status: 'succeeded',
  transfer_data: null,
  transfer_group: null,
};
