// The official TypeScript SDKs against a running service: URL TOKEN. The one of the handshake, and the client of 2026-07-28.
import assert from "node:assert/strict";
import { Client as Old } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, token] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const about = { name: "countersign-tests", version: "1" };

async function talk(name, client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  assert(names.includes("identity_list") && !names.includes("identity_enroll"), names.join());
  // The client holds what comes, refusals too, against the schema that it was given.
  const read = await client.callTool({ name: "identity_list", arguments: { limit: 1 } });
  assert(!read.isError && read.structuredContent.as_of.size >= 1, JSON.stringify(read));
  const wrong = await client.callTool({ name: "identity_list", arguments: { limt: 1 } });
  assert(wrong.isError && wrong.structuredContent.code === "UNKNOWN_ARGUMENT", JSON.stringify(wrong));
  const refused = await client.callTool({ name: "token_revoke", arguments: { token_sha256: "00".repeat(32) } });
  assert(refused.isError && refused.structuredContent.code === "NOT_FOUND", JSON.stringify(refused));
  assert(refused.structuredContent.entry.index >= 1);
  await client.close();
  console.log(`typescript ${name}: ${tools.length} tools`);
}

const address = new URL(`${url}/mcp`);
await talk("1.x", new Old(about), new OldTransport(address, { requestInit }));
for (const mode of ["auto", "legacy"]) {
  const client = new Client(about, { versionNegotiation: { mode } });
  await talk(`2.x ${mode}`, client, new StreamableHTTPClientTransport(address, { requestInit }));
}
