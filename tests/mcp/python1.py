"""The official Python SDK 1.x, which knows only the handshake, against a running service: URL TOKEN."""

import asyncio
import sys

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

URL, TOKEN = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
NOBODY = "00" * 32


async def main():
    async with httpx.AsyncClient(headers=HEADERS, timeout=30) as http:
        async with streamable_http_client(f"{URL}/mcp", http_client=http) as (read, write, session_id):
            async with ClientSession(read, write) as session:
                begun = await session.initialize()
                assert begun.protocolVersion == "2025-11-25", begun
                assert session_id() is None
                await session.send_ping()
                listed = await session.list_tools()
                names = [tool.name for tool in listed.tools]
                assert "identity_list" in names and "identity_enroll" not in names, names
                # The session checks what comes against the schema that it was given.
                answer = await session.call_tool("identity_list", {"limit": 1})
                assert not answer.isError, answer
                assert answer.structuredContent["as_of"]["size"] >= 1, answer
                refused = await session.call_tool("token_revoke", {"token_sha256": NOBODY})
                assert refused.isError and refused.structuredContent["code"] == "NOT_FOUND", refused
                print(f"python 1.x: {begun.protocolVersion}, {len(names)} tools")


asyncio.run(main())
