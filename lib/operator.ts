import { Duration } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { type SecretReference, ServiceFunction, type ServiceParts } from './service-function';

export interface OperatorProps {
  readonly parts: ServiceParts;
  /** Holds the Stripe key and nothing else. */
  readonly secret: SecretReference;
}

/**
 * The function behind the operator's commands that change something. One place writes what a person decides, so a person
 * needs neither the Stripe key nor the right to write records.
 */
export class Operator extends Construct {
  readonly service: ServiceFunction;

  constructor(scope: Construct, id: string, { parts, secret }: OperatorProps) {
    super(scope, id);
    this.service = new ServiceFunction(this, 'Service', {
      entry: 'operate',
      description:
        'Settles, retries, cancels and audits operations, pauses and resumes the service, for a person',
      parts,
      timeout: Duration.seconds(30),
      secret,
    });
    this.service.allowRecords({ writes: true });
    this.service.allowSending();
  }
}
