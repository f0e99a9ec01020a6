import type { Template } from 'aws-cdk-lib/assertions';
import { metricNamespace } from '../../lambdas/runtime/metrics';

/** The names of our own metrics that any alarm or widget of a template has. */
export function namedMetrics(template: Template): Set<string> {
  const alarms = Object.values(template.findResources('AWS::CloudWatch::Alarm'))
    .filter(({ Properties }) => Properties.Namespace === metricNamespace)
    .map(({ Properties }) => String(Properties.MetricName));
  const widgets = JSON.stringify(template.findResources('AWS::CloudWatch::Dashboard'));
  // A widget's metric is a list that begins with its namespace and name; a search has a term with the name.
  const listed = [...widgets.matchAll(/\[\\"ChargeOnce\\",\\"(\w+)\\"/g)];
  const searched = [...widgets.matchAll(/MetricName=\\+"(\w+)\\+"/g)];
  return new Set([...alarms, ...[...listed, ...searched].map(([, name = '']) => name)]);
}
