"""The official Python SDK 1.x, which knows only the handshake, against a running service: URL, the owner's TOKEN, a SEAT's."""

import asyncio
import sys

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from work import work

URL, TOKEN, SEAT = sys.argv[1:]
NOBODY = "00" * 32


async def session_of(token, then):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        async with streamable_http_client(f"{URL}/mcp", http_client=http) as (read, write, session_id):
            async with ClientSession(read, write) as session:
                begun = await session.initialize()
                assert begun.protocolVersion == "2025-11-25", begun
                assert session_id() is None
                await then(session)


async def look(session):
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
    print(f"python 1.x: {len(names)} tools")


async def loop(session):
    async def call(tool, arguments):
        answer = await session.call_tool(tool, arguments)
        assert not answer.isError, (tool, answer)
        return answer.structuredContent

    await work(call, "python1")
    print("python 1.x 2025-11-25: an item from beginning to end")


async def main():
    await session_of(TOKEN, look)
    await session_of(SEAT, loop)


asyncio.run(main())
