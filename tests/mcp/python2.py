"""The official Python SDK 2.x against a running service: URL TOKEN. Each way that it connects."""

import asyncio
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL, TOKEN = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
NOBODY = "00" * 32


async def talk(mode, expected):
    async with httpx2.AsyncClient(headers=HEADERS, timeout=30) as http:
        transport = streamable_http_client(f"{URL}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            version = client.protocol_version
            assert version == expected, version
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
            print(f"python {mode}: {version}, {len(names)} tools")


async def main():
    await talk("auto", "2026-07-28")
    await talk("2026-07-28", "2026-07-28")
    await talk("legacy", "2025-11-25")


asyncio.run(main())
