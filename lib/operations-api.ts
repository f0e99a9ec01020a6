import { Duration } from 'aws-cdk-lib';
import { AccessLogFormat } from 'aws-cdk-lib/aws-apigateway';
import {
  HttpApi,
  HttpMethod,
  HttpRoute,
  HttpRouteKey,
  HttpStage,
  type IHttpRouteAuthorizer,
  LogGroupLogDestination,
} from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpIamAuthorizer, HttpJwtAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import type { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { type Route, routes } from '../lambdas/http/routes';
import { ApiPolicies } from './api-policies';
import type { ChargeOnce } from './charge-once';
import { logGroup, ServiceFunction } from './service-function';
import type { Settings } from './settings';
import { stackNameOf } from './stack-name';

export interface OperationsApiProps {
  /** Whose operations are accepted, shown and cancelled. */
  readonly chargeOnce: ChargeOnce;
}

/**
 * The HTTP API before a `ChargeOnce`: admission by tenant, status, cancel and refund. Callers are known by their IAM
 * signature, or by a JSON Web Token where the settings name an issuer.
 */
export class OperationsApi extends Construct {
  readonly api: HttpApi;
  readonly accept: ServiceFunction;
  readonly getOperation: ServiceFunction;
  readonly cancel: ServiceFunction;
  readonly accessLog: LogGroup;
  /** Policies for callers; none where callers have tokens and no IAM identity. */
  readonly policies: ApiPolicies | undefined;

  constructor(scope: Construct, id: string, { chargeOnce }: OperationsApiProps) {
    super(scope, id);
    const { settings } = chargeOnce;
    this.accept = this.functionOf(chargeOnce, 'Accept', 'accept', 'Accepts charges and refunds');
    this.accept.allowRecords({ writes: true });
    this.accept.allowSending();
    // The queue's depth, above which nothing is accepted.
    this.accept.allow(['sqs:GetQueueAttributes'], [chargeOnce.queues.queue.queueArn]);
    this.getOperation = this.functionOf(chargeOnce, 'GetOperation', 'get-operation', 'Shows an operation');
    this.getOperation.allowRecords({ writes: false });
    this.cancel = this.functionOf(chargeOnce, 'Cancel', 'cancel', 'Cancels an operation without effect');
    this.cancel.allowRecords({ writes: true });

    this.api = new HttpApi(this, 'Api', {
      apiName: `${stackNameOf(this, 100)}-operations`,
      description: 'charge-once: accepts charges and refunds, shows and cancels operations',
      createDefaultStage: false,
      defaultAuthorizer: authorizerOf(settings),
    });
    this.addRoutes();
    this.accessLog = logGroup(this, 'AccessLog', settings);
    new HttpStage(this, 'Stage', {
      httpApi: this.api,
      autoDeploy: true,
      throttle: { rateLimit: settings.apiRequestsPerSecond, burstLimit: settings.apiBurstRequests },
      accessLogSettings: {
        destination: new LogGroupLogDestination(this.accessLog),
        format: AccessLogFormat.custom(JSON.stringify(accessLogFields)),
      },
    });
    this.policies =
      settings.jwtIssuer === undefined
        ? new ApiPolicies(this, 'Policies', { api: this.api, chargeOnce })
        : undefined;
  }

  private functionOf(parts: ChargeOnce, id: string, entry: string, description: string): ServiceFunction {
    const { jwtTenantClaim } = parts.settings;
    return new ServiceFunction(this, id, {
      entry,
      description,
      parts,
      // A cold start and every call's retries take less; API Gateway itself gives up after 30 s. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html
      timeout: Duration.seconds(10),
      environment: jwtTenantClaim === undefined ? {} : { JWT_TENANT_CLAIM: jwtTenantClaim },
    });
  }

  private addRoutes(): void {
    const accept = new HttpLambdaIntegration('AcceptIntegration', this.accept.alias);
    const getOperation = new HttpLambdaIntegration('GetOperationIntegration', this.getOperation.alias);
    const cancel = new HttpLambdaIntegration('CancelIntegration', this.cancel.alias);
    this.addRoute('ChargeRoute', routes.charge, accept);
    this.addRoute('RefundRoute', routes.refund, accept);
    this.addRoute('StatusRoute', routes.getOperation, getOperation);
    this.addRoute('CancelRoute', routes.cancel, cancel);
  }

  private addRoute(
    id: string,
    { path, method }: (typeof routes)[Route],
    integration: HttpLambdaIntegration,
  ): void {
    const routeKey = HttpRouteKey.with(path, HttpMethod[method]);
    new HttpRoute(this, id, { httpApi: this.api, routeKey, integration });
  }
}

function authorizerOf({ jwtIssuer, jwtAudiences = [] }: Settings): IHttpRouteAuthorizer {
  if (jwtIssuer === undefined) return new HttpIamAuthorizer();
  return new HttpJwtAuthorizer('Tokens', jwtIssuer, { jwtAudience: [...jwtAudiences] });
}

/**
 * One line a request: no body, no query string, and no path, since what was put where an id belongs may be a card
 * number. The function's own line with the same `requestId` has the ids once they are known to be ids. No field can
 * hold a quotation mark. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging-variables.html
 */
const accessLogFields = {
  requestId: '$context.requestId',
  requestTimeMs: '$context.requestTimeEpoch',
  routeKey: '$context.routeKey',
  sourceIp: '$context.identity.sourceIp',
  callerArn: '$context.identity.userArn',
  statusCode: '$context.status',
  errorType: '$context.error.responseType',
  integrationStatusCode: '$context.integrationStatus',
  integrationLatencyMs: '$context.integrationLatency',
  responseLatencyMs: '$context.responseLatency',
  responseBytes: '$context.responseLength',
};
