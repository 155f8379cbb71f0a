// The page from the working tree in front of a running server: what is not a file of the page goes on to it.
//
// For `run.mjs --api URL`, and for working on the page without building the server: `node proxy.mjs URL [PORT]`.

import { createServer, request } from "node:http";
import { fileURLToPath } from "node:url";
import { serveFile } from "./mock.mjs";

/** Starts it; `{ url, close }`. */
export async function startProxy(api, port = 0) {
  const target = new URL(api);
  const server = createServer((incoming, response) => {
    const { pathname } = new URL(incoming.url, api);
    if (!/^\/(v1\/|ready$|version$|health$)/.test(pathname)) return serveFile(pathname, response);
    // The server checks both against DNS rebinding; they are the proxy's otherwise.
    const headers = { ...incoming.headers, host: target.host };
    if (headers.origin) headers.origin = target.origin;
    const { hostname, port: targetPort } = target;
    const onward = request({ hostname, port: targetPort, path: incoming.url, method: incoming.method, headers });
    onward.on("response", (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    return incoming.pipe(onward);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startProxy(process.argv[2], Number(process.argv[3] ?? 0));
  console.log(url);
}
