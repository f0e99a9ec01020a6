import { Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

/**
 * The name of the outermost stack around `scope`, which people know it by, cut to `maxLength` characters. A
 * nested stack's own name is made while deploying.
 */
export function stackNameOf(scope: Construct, maxLength: number): string {
  let stack = Stack.of(scope);
  while (stack.nestedStackParent) stack = stack.nestedStackParent;
  return stack.stackName.slice(0, maxLength);
}
