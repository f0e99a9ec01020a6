import { Logger } from '@aws-lambda-powertools/logger';
import { LineLogger } from '../../../lambdas/runtime/line-logger';

const always = { stage: 'prod', functionVersion: '7' };
const details = { operationId: 'O7', attempt: 2, outcome: undefined, providerRef: 'pi_1' };

beforeAll(() => Object.assign(process.env, { POWERTOOLS_DEV: 'true' }));
afterEach(() => jest.restoreAllMocks());

/** The one line that a logger prints, by the way of the console that it takes. */
function lineOf(logger: Logger, level: 'info' | 'warn' | 'error') {
  const lines: string[] = [];
  jest.spyOn(console, level).mockImplementation((...[line]: unknown[]) => {
    lines.push(String(line));
  });
  logger[level]('operation succeeded', details);
  expect(lines).toHaveLength(1);
  const { timestamp, ...line } = JSON.parse(lines[0] ?? '');
  expect(Math.abs(Date.parse(timestamp) - Date.now())).toBeLessThan(10_000);
  return line;
}

test.each(['info', 'warn', 'error'] as const)(
  "a line of level %s says what Powertools' own says",
  (level) => {
    process.env._X_AMZN_TRACE_ID = 'Root=1-abc;Parent=def;Sampled=1';
    const own = lineOf(new Logger({ serviceName: 'charge-once', persistentKeys: always }), level);
    const { sampling_rate: _, ...said } = lineOf(new LineLogger(always), level);
    const { sampling_rate: __, ...expected } = own;
    expect(said).toEqual(expected);
    expect(said).toMatchObject({ stage: 'prod', operationId: 'O7', level: level.toUpperCase() });
    expect(said).toMatchObject({ service: 'charge-once', xray_trace_id: '1-abc' });
  },
);

test('a level that is not wanted prints nothing', () => {
  const logger = new LineLogger(always);
  logger.setLogLevel('WARN');
  const said = jest.spyOn(console, 'info').mockImplementation(() => {});
  logger.info('operation succeeded', details);
  expect(said).not.toHaveBeenCalled();
});
