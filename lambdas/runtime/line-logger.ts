import { getXRayTraceIdFromEnv } from '@aws-lambda-powertools/commons/utils/env';
import { Logger, LogItem, LogLevelThreshold } from '@aws-lambda-powertools/logger';
import type { LogAttributes, LogItemExtraInput, LogItemMessage } from '@aws-lambda-powertools/logger/types';

const serviceName = 'charge-once';

/**
 * Powertools' Logger, with lines of level INFO made in a quarter of the time. Each operation has two of them, of texts and
 * numbers: nothing has to be merged, and no error or cycle be looked for. So their details are no errors, and none has the
 * name of an attribute that every line has. Without `sampling_rate`: there is no sampling.
 */
export class LineLogger extends Logger {
  constructor(private readonly always: LogAttributes) {
    super({ serviceName, persistentKeys: always });
  }

  protected override createAndPopulateLogItem(
    logLevel: number,
    message: LogItemMessage,
    extra: LogItemExtraInput,
  ): LogItem {
    if (logLevel !== LogLevelThreshold.INFO) return super.createAndPopulateLogItem(logLevel, message, extra);
    const attributes = {
      level: 'INFO',
      message,
      timestamp: new Date().toISOString(),
      service: serviceName,
      xray_trace_id: getXRayTraceIdFromEnv(),
      ...this.always,
    };
    return new LogItem({ attributes: Object.assign(attributes, ...extra) });
  }

  protected override printLog(logLevel: number, log: LogItem): void {
    // Its own console: to the process's one Lambda adds a prefix.
    // biome-ignore lint/complexity/useLiteralKeys: by its literal key it may be read, though it is private.
    if (logLevel === LogLevelThreshold.INFO) this['console'].info(JSON.stringify(log.getAttributes()));
    else super.printLog(logLevel, log);
  }
}
