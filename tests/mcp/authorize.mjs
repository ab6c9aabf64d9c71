// Passes requests on to a service, with a token: URL TOKEN. The conformance suite has no way to send one. Prints its own address.
import http from "node:http";

const [url, token] = process.argv.slice(2);
const to = new URL(url);
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  // What was said for this address is said for the one behind it; anything else is passed on as it is.
  const own = `127.0.0.1:${server.address().port}`;
  for (const name of ["host", "origin"]) {
    if (headers[name]) headers[name] = headers[name].replace(own, to.host);
  }
  const passed = http.request(
    { host: to.hostname, port: to.port, method: request.method, path: request.url, headers },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    },
  );
  passed.on("error", () => response.destroy());
  response.on("close", () => passed.destroy());
  request.pipe(passed);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
