"""The official Python SDK 2.x against a running service: URL, the owner's TOKEN, a SEAT's. Each way that it connects."""

import asyncio
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from work import work

URL, TOKEN, SEAT = sys.argv[1:]
NOBODY = "00" * 32


async def client_of(token, mode, expected, then):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        transport = streamable_http_client(f"{URL}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            version = client.protocol_version
            assert version == expected, version
            await then(client, mode)


async def look(client, mode):
    listed = await client.list_tools()
    names = [tool.name for tool in listed.tools]
    assert "identity_list" in names and "identity_enroll" not in names, names
    read = await client.call_tool("identity_list", {"limit": 1})
    assert not read.is_error, read
    assert read.structured_content["as_of"]["size"] >= 1, read
    wrong = await client.call_tool("identity_list", {"limt": 1})
    assert wrong.is_error and wrong.structured_content["code"] == "UNKNOWN_ARGUMENT", wrong
    seen = []

    async def progress(done, total, message):
        seen.append(done)

    refused = await client.call_tool("token_revoke", {"token_sha256": NOBODY}, progress_callback=progress)
    assert refused.is_error and refused.structured_content["code"] == "NOT_FOUND", refused
    assert refused.structured_content["entry"]["index"] >= 1, refused
    print(f"python {mode}: {len(names)} tools")


async def loop(client, mode):
    async def call(tool, arguments):
        answer = await client.call_tool(tool, arguments)
        assert not answer.is_error, (tool, answer)
        return answer.structured_content

    await work(call, f"python2-{mode}")
    print(f"python {mode} {client.protocol_version}: an item from beginning to end")


async def main():
    for mode, expected in [("auto", "2026-07-28"), ("2026-07-28", "2026-07-28"), ("legacy", "2025-11-25")]:
        await client_of(TOKEN, mode, expected, look)
        await client_of(SEAT, mode, expected, loop)


asyncio.run(main())
