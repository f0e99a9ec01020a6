/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  transform: {
    '^.+\\.[jt]s$': [
      '@swc/jest',
      { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } },
    ],
  },
  // This package is an ES module only.
  transformIgnorePatterns: ['/node_modules/(?!to-fast-properties/)'],
  // The crash tests and the laptop stack start real processes; two cores carry two test files at a time.
  maxWorkers: 2,
  testTimeout: 30_000,
};
