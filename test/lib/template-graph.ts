import type { Template } from 'aws-cdk-lib/assertions';

/** A chain of logical ids that ends where it began, which CloudFormation refuses to deploy; none when absent. */
export function dependencyCycle(template: Template): string[] | undefined {
  const resources: Record<string, unknown> = template.toJSON().Resources ?? {};
  const ids = new Set(Object.keys(resources));
  const done = new Set<string>();

  const visit = (id: string, path: string[]): string[] | undefined => {
    if (path.includes(id)) return [...path.slice(path.indexOf(id)), id];
    if (done.has(id)) return undefined;
    for (const next of references(resources[id])) {
      const cycle = ids.has(next) ? visit(next, [...path, id]) : undefined;
      if (cycle) return cycle;
    }
    done.add(id);
    return undefined;
  };
  for (const id of ids) {
    const cycle = visit(id, []);
    if (cycle) return cycle;
  }
  return undefined;
}

/** Every logical id that `value` refers to by Ref, Fn::GetAtt, Fn::Sub or DependsOn. */
function references(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(references);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) => {
    if (key === 'Ref' || key === 'DependsOn') return [inner].flat().filter((id) => typeof id === 'string');
    if (key === 'Fn::GetAtt') return attributeOwner(inner);
    if (key === 'Fn::Sub') return [...substituted([inner].flat()[0]), ...references(inner)];
    return references(inner);
  });
}

function attributeOwner(attribute: unknown): string[] {
  const owner: unknown = Array.isArray(attribute) ? attribute[0] : attribute;
  return typeof owner === 'string' ? owner.split('.', 1) : [];
}

function substituted(text: unknown): string[] {
  return typeof text === 'string' ? [...text.matchAll(/\$\{([A-Za-z0-9]+)/g)].map(([, id]) => id ?? '') : [];
}

export interface Grant {
  readonly action: string;
  /** The resource as JSON, whatever intrinsic names it. */
  readonly resource: string;
}

/** Every action that the policies of a type, whose logical id contains `idPart`, allow on each resource. */
export function grants(template: Template, type: string, idPart: string): Grant[] {
  return Object.entries(template.findResources(type))
    .filter(([id]) => id.includes(idPart))
    .flatMap(([, policy]) => policy.Properties.PolicyDocument.Statement)
    .filter(({ Effect }) => Effect === 'Allow')
    .flatMap(({ Action, Resource }) =>
      [Action]
        .flat()
        .flatMap((action) =>
          [Resource]
            .flat()
            .map((resource) => ({ action: String(action), resource: JSON.stringify(resource) })),
        ),
    );
}

/** What a function's role allows beside writing traces, which takes no resource but `*`. */
export function grantsBesideTraces(template: Template, idPart: string): Grant[] {
  const all = grants(template, 'AWS::IAM::Policy', idPart);
  const isTrace = ({ action, resource }: Grant) =>
    ['xray:PutTelemetryRecords', 'xray:PutTraceSegments'].includes(action) && resource === '"*"';
  expect(all.filter(isTrace)).toHaveLength(2);
  return all.filter((grant) => !isTrace(grant));
}
