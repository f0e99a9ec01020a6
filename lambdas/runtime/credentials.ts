/**
 * Where a function's AWS credentials come from: Lambda gives them in the environment. A bundle has this in place of the
 * SDK's chain of all sources (files, SSO, other accounts' roles, containers), a sixth of its code that nothing there uses.
 */
export { fromEnv as defaultProvider } from '@aws-sdk/credential-provider-env';
