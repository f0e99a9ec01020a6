// Plain JavaScript, so that it runs on any Node and can say what to do. npm puts the pinned Node 24 of
// `optionalDependencies` first on the PATH of its scripts; where that package is missing, the machine's own runs.
const required = [22, 5];
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < required[0] || (major === required[0] && minor < required[1])) {
  console.error(
    `charge-once needs Node ${required.join('.')} or later; this is Node ${process.versions.node}.\n` +
      'Its scripts bring Node 24 as an optional dependency, which is not installed here. Either\n' +
      '  - run `npm ci` again without --omit=optional, or\n' +
      '  - install Node 24 from https://nodejs.org and run the command again.',
  );
  process.exit(1);
}
