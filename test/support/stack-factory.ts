import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import cdkJson from '../../cdk.json';
import { ChargeOnce, type ChargeOnceProps } from '../../lib/charge-once';
import { OperationsStack } from '../../lib/operations-stack';
import { type SettingsOverrides, settingsFrom } from '../../lib/settings';

/** An app with the feature flags that are deployed, and no bundling, so that templates do not depend on code. */
export function testApp(): App {
  return new App({ context: { ...cdkJson.context, 'aws:cdk:bundling-stacks': [] } });
}

/** The stack as `bin/app.ts` makes it, and its template. */
export function operationsStack(overrides: SettingsOverrides = {}) {
  const settings = settingsFrom(overrides);
  const stack = new OperationsStack(testApp(), `charge-once-${settings.stage}`, { settings });
  return { stack, template: Template.fromStack(stack) };
}

/** The settings of a stage whose callers have tokens. */
export const tokens = {
  jwtIssuer: 'https://login.shop.test/pool',
  jwtAudiences: ['shop'],
  jwtTenantClaim: 'custom:tenantId',
  customerTenantCheck: true,
};

/** Somebody else's stack with our construct in it, given what `bring` makes there. */
export function foreignStack(bring: (stack: Stack) => ChargeOnceProps = () => ({})) {
  const env = { account: '111122223333', region: 'eu-west-1' };
  const stack = new Stack(testApp(), 'Shop', { env });
  const chargeOnce = new ChargeOnce(stack, 'Payments', bring(stack));
  return { stack, chargeOnce, template: () => Template.fromStack(stack) };
}
