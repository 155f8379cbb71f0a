// Runs the browser tests: `node run.mjs --mock`, or against a running server: `node run.mjs --base http://127.0.0.1:8080`.
//
//   --mock             scripted server (mock.mjs); every test
//   --base URL         a real server with a model; the tests that need a script are skipped
//   --api URL          the same, with the page of the working tree in front of the server (proxy.mjs)
//   --key KEY          API key of that server
//   --browser PATH     Chromium (default: /usr/bin/chromium)
//   --only WORDS       tests whose name holds these words
//
// Set-up, once: `npm ci --ignore-scripts` in this folder, and Debian's `chromium` package.

import { run, scenario } from "./scenario.mjs";
import { startBrowser } from "./harness.mjs";
import { startMock } from "./mock.mjs";
import { startProxy } from "./proxy.mjs";

const option = (name) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? null : (process.argv[at + 1] ?? "");
};

const api = option("api");
const proxy = api ? await startProxy(api) : null;
const base = proxy?.url ?? option("base");
if (!base && !process.argv.includes("--mock")) {
  console.error("usage: node run.mjs --mock | --base URL | --api URL [--key KEY] [--browser PATH] [--only WORDS]");
  process.exit(2);
}
for (const suite of ["chat", "branches", "storage", "hostile", "errors", "models", "access", "tools", "units"]) {
  (await import(`./suite/${suite}.mjs`)).default(scenario);
}
const mock = base ? null : await startMock();
const browser = await startBrowser(option("browser") ?? "/usr/bin/chromium");
const failed = await run({ browser, mock, base: base ?? mock.url, key: option("key"), only: option("only") });
await browser.close();
mock?.close();
proxy?.close();
process.exitCode = failed > 0 ? 1 : 0;
