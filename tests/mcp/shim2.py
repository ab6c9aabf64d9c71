"""The official Python SDK 2.x with `countersign shim` as its server: COUNTERSIGN DIRECTORY. Each way that it connects."""

import asyncio
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters

COUNTERSIGN, DIRECTORY = sys.argv[1:]


async def talk(mode, expected):
    server = StdioServerParameters(command=COUNTERSIGN, args=["shim", "--dir", DIRECTORY])
    async with Client(server, mode=mode) as client:
        version = client.protocol_version
        assert version == expected, version
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "ars_start" in names and "identity_enroll" not in names, names
        item = {"item": {"id": f"shim-{mode}", "title": "Something to do"}}
        made = await client.call_tool("board_upsert", item)
        assert not made.is_error, made
        assert made.structured_content["entry"]["by"]["class"] == "session_key", made
        wrong = await client.call_tool("board_get", {"idd": "shim-none"})
        assert wrong.is_error and wrong.structured_content["code"] == "UNKNOWN_ARGUMENT", wrong
        print(f"shim {mode}: {version}, {len(names)} tools")


async def main():
    await talk("auto", "2026-07-28")
    await talk("2026-07-28", "2026-07-28")
    await talk("legacy", "2025-11-25")


asyncio.run(main())
