"""The OAuth client of the official Python SDK 2.x, led by the service to an authorization server: URL of the service."""

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from work import work

(URL,) = sys.argv[1:]


class Kept:
    """What the client keeps, for as long as it runs."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def main():
    back = {}

    async def redirect(to):
        # A browser, and a user who says yes.
        async with httpx2.AsyncClient(follow_redirects=False) as browser:
            answer = await browser.get(to)
        back.update(parse_qs(urlsplit(answer.headers["location"]).query))

    async def callback():
        return AuthorizationCodeResult(code=back["code"][0], state=back["state"][0])

    metadata = OAuthClientMetadata(client_name="example", redirect_uris=["http://127.0.0.1:9/back"], token_endpoint_auth_method="none")
    kept = Kept()
    auth = OAuthClientProvider(f"{URL}/mcp", metadata, kept, redirect, callback)
    for mode, expected in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
        async with httpx2.AsyncClient(auth=auth, timeout=30) as http:
            async with Client(streamable_http_client(f"{URL}/mcp", http_client=http), mode=mode) as client:
                assert client.protocol_version == expected, client.protocol_version

                async def call(tool, arguments):
                    answer = await client.call_tool(tool, arguments)
                    assert not answer.is_error, (tool, answer)
                    return answer.structured_content

                await work(call, f"oauth-{mode}")
    assert kept.tokens.scope == "countersign", kept.tokens
    print("oauth: led to the server, registered, authorized, and an item from beginning to end")


asyncio.run(main())
