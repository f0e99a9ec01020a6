/** Log lines and metrics that are printed while `run` runs, as Lambda would see them. */
export function saidBy(run: () => void): Record<string, unknown>[] {
  const lines: Record<string, unknown>[] = [];
  const consoles = (['log', 'info', 'warn', 'error'] as const).map((level) =>
    jest.spyOn(console, level).mockImplementation((...[line]: unknown[]) => {
      lines.push(typeof line === 'string' && line.startsWith('{') ? JSON.parse(line) : { level, line });
    }),
  );
  try {
    run();
    return lines;
  } finally {
    for (const spy of consoles) spy.mockRestore();
  }
}
