import type { Template } from 'aws-cdk-lib/assertions';

/** The properties of the one function whose logical id contains `idPart`. */
export function functionOf(template: Template, idPart: string): Record<string, unknown> {
  const found = Object.entries(template.findResources('AWS::Lambda::Function'))
    .filter(([id]) => id.includes(idPart))
    .map(([, { Properties }]) => Properties);
  expect(found).toHaveLength(1);
  return found[0];
}

/** The environment of that function. */
export function variablesOf(template: Template, idPart: string): Record<string, unknown> {
  const { Environment } = functionOf(template, idPart);
  expect(Environment).toEqual({ Variables: expect.anything() });
  return Object(Environment).Variables;
}
