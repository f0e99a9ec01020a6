import { Stack, Validations } from 'aws-cdk-lib';
import type { HttpApi } from 'aws-cdk-lib/aws-apigatewayv2';
import { ManagedPolicy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import {
  type AccessPoliciesProps,
  acknowledgeOperator,
  asFound,
  operatorStatements,
} from './access-policies';

export interface ApiPoliciesProps extends AccessPoliciesProps {
  readonly api: HttpApi;
}

/**
 * Methods and paths as IAM compares them with a request's, where `*` is any text and crosses `/`. None reaches a
 * route of another: for the words of this pattern to be elsewhere in a path, an id would have to hold a `/`, which no
 * route matches and no handler takes, also when it comes as `%2F`. Only at the end of a path is there none to tell:
 * `charges` may be a refund's id, and `.../refunds/charges/` would end in `charges/`; so `?` asks for a character
 * after it. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
 */
export const invokable = {
  charge: 'PUT/tenants/*/charges/?*',
  refund: 'PUT/tenants/*/refunds/?*',
  status: 'GET/tenants/*/operations/?*',
  cancel: 'POST/tenants/*/operations/?*/cancel',
} as const;

/** Ready-made policies for those who call the API. For one tenant alone write its id in place of the first `*`. */
export class ApiPolicies extends Construct {
  /** Charges for every tenant, and asks what became of operations. */
  readonly charge: ManagedPolicy;
  /** Refunds for every tenant, and asks what became of operations. */
  readonly refund: ManagedPolicy;
  /** For a person: what the operator of `AccessPolicies` may, and asks for operations and cancels them through the API. */
  readonly operator: ManagedPolicy;

  constructor(scope: Construct, id: string, { api, chargeOnce }: ApiPoliciesProps) {
    super(scope, id);
    const { charge, refund, status, cancel } = invokable;
    this.charge = this.policyOf(api, 'Charge', 'Charges through the charge-once API', [charge, status]);
    this.refund = this.policyOf(api, 'Refund', 'Refunds through the charge-once API', [refund, status]);
    this.operator = this.policyOf(
      api,
      'Operator',
      'Inspects the charge-once queues, records and operations, redrives, discards and cancels',
      [status, cancel],
    );
    this.operator.addStatements(...operatorStatements({ chargeOnce }));
    acknowledgeOperator(this.operator);
  }

  private policyOf(api: HttpApi, id: string, description: string, paths: readonly string[]): ManagedPolicy {
    const resources = paths.map((path) => arnOf(api, path));
    const policy = new ManagedPolicy(this, id, {
      description,
      statements: [new PolicyStatement({ actions: ['execute-api:Invoke'], resources })],
    });
    for (const resource of resources) {
      Validations.of(policy).acknowledge({
        id: `AwsSolutions-IAM5[Resource::${asFound(Stack.of(this).resolve(resource))}]`,
        reason:
          'Tenants and operations are no resources that a policy could list; the method and the route are exact.',
      });
    }
    return policy;
  }
}

function arnOf(api: HttpApi, methodAndPath: string): string {
  return Stack.of(api).formatArn({
    service: 'execute-api',
    resource: api.apiId,
    resourceName: `$default/${methodAndPath}`,
  });
}
