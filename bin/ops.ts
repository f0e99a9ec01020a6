import { runOps } from '../ops/program';
import { terminal } from '../ops/terminal';

runOps(process.argv.slice(2), terminal()).then(
  (exitCode) => {
    process.exitCode = exitCode;
  },
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);
