"""The official Python SDK 1.x with `countersign shim` as its server: COUNTERSIGN DIRECTORY."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

COUNTERSIGN, DIRECTORY = sys.argv[1:]


async def main():
    server = StdioServerParameters(command=COUNTERSIGN, args=["shim", "--dir", DIRECTORY])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        begun = await session.initialize()
        assert begun.protocolVersion == "2025-11-25", begun
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert "ars_start" in names and "identity_enroll" not in names, names
        item = {"item": {"id": "shim-1", "title": "Something to do"}}
        # The session checks what comes against the schema that it was given.
        made = await session.call_tool("board_upsert", item)
        assert not made.isError, made
        assert made.structuredContent["entry"]["by"]["class"] == "session_key", made
        refused = await session.call_tool("board_get", {"id": "shim-none"})
        assert refused.isError and refused.structuredContent["code"] == "NOT_FOUND", refused
        print(f"shim 1.x: {begun.protocolVersion}, {len(names)} tools")


asyncio.run(main())
