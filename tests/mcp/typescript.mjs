// The official TypeScript SDKs against a running service: URL, the owner's TOKEN, a SEAT's. The one of the handshake, and the client of
// 2026-07-28.
import assert from "node:assert/strict";
import { Client as Old } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, token, seat] = process.argv.slice(2);
const about = { name: "countersign-tests", version: "1" };
const address = new URL(`${url}/mcp`);

async function look(name, client) {
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
  console.log(`typescript ${name}: ${tools.length} tools`);
}

// What an agent does: a session, an item with its lease, the work, what became of it, the end.
async function loop(name, client) {
  const call = async (tool, args) => {
    const answer = await client.callTool({ name: tool, arguments: args });
    assert(!answer.isError, `${tool}: ${JSON.stringify(answer)}`);
    return answer.structuredContent;
  };
  const id = `typescript-${name.replaceAll(" ", "-")}`;
  await call("board_upsert", { item: { id, title: "Something to do" }, if_version: 0 });
  const checkin = { role: "agent", harness: { name: "example" }, clock: new Date().toISOString() };
  const { session_id } = (await call("ars_session_checkin", checkin)).result;
  const { item, lease } = (await call("ars_start", { session_id, filter: { id } })).result;
  assert.equal(item.id, id);
  const path = (await call("ars_lease_acquire", { session_id, resource: `path:site:${id}/**` })).result;
  assert(path.fence > lease.fence);
  await call("ars_lease_release", { session_id, lease_id: path.lease_id, fence: path.fence });
  const changed = await call("board_upsert", { item: { id, status: "active" }, session_id, fence: lease.fence });
  assert.equal(changed.entry.by.class, "seat_key");
  const resolved = await call("board_resolve", { id, outcome: "done", session_id, fence: lease.fence });
  assert.equal(resolved.result.item.status, "done");
  await call("ars_session_checkout", { session_id, outcome: "delivered" });
  console.log(`typescript ${name}: an item from beginning to end`);
}

async function talk(name, client, Transport) {
  for (const [who, does] of [
    [token, look],
    [seat, loop],
  ]) {
    const requestInit = { headers: { Authorization: `Bearer ${who}` } };
    const made = client();
    await made.connect(new Transport(address, { requestInit }));
    await does(name, made);
    await made.close();
  }
}

await talk("1.x", () => new Old(about), OldTransport);
for (const mode of ["auto", "legacy"]) {
  await talk(`2.x ${mode}`, () => new Client(about, { versionNegotiation: { mode } }), StreamableHTTPClientTransport);
}
