/** The command was called wrongly: exit code 2. */
export class CalledWrongly extends Error {
  override readonly name = 'CalledWrongly';
}

/** Something failed, or was refused: exit code 1. The message is for the person, and says what to do where it can. */
export class Failure extends Error {
  override readonly name = 'Failure';
}

/** What an error means for the person at the terminal. */
export function explain(error: unknown): string {
  if (error instanceof Failure || error instanceof CalledWrongly) return error.message;
  if (error instanceof AggregateError && error.message === '') return explain(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  const said = error.message || code;
  if (/\b(ECONNREFUSED|ECONNRESET|ENOTFOUND|ETIMEDOUT|TimeoutError)\b/.test(`${code} ${said}`))
    return `it cannot be reached (${said})`;
  if (/^(AccessDenied|AccessDeniedException|UnauthorizedOperation|AuthorizationError)/.test(code))
    return `AWS denied it: ${said}. The policy of the output OperatorPolicyArn allows what these commands do.`;
  if (/^(ExpiredToken|ExpiredTokenException|InvalidClientTokenId|UnrecognizedClientException)$/.test(code))
    return `AWS does not take these credentials (${said}): sign in again.`;
  if (code === 'CredentialsProviderError')
    return `there are no AWS credentials (${said}): sign in, or set AWS_PROFILE.`;
  if (said.startsWith('Region is missing')) return 'no AWS region is set: pass --region, or set AWS_REGION.';
  return code === 'Error' ? said : `${code}: ${said}`;
}
