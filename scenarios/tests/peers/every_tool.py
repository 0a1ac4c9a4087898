"""Lists and calls every tool of an MCP server on stdio, with the Python SDK.

Arguments: the server's command, and the SDK's mode ("auto", "legacy", or a protocol version).
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

ARGUMENTS = {
    "capabilities": {},
    "host_snapshot": {"window_ms": 300},
    "process_list": {"window_ms": 300},
    "process_inspect": {"pid": os.getpid(), "window_ms": 300},
    "self_test": {"count": 3},
}


async def main(command: str, mode: str) -> None:
    progress = []

    async def on_progress(done, total, message):
        progress.append(message)

    async with Client(
        stdio_client(StdioServerParameters(command=command, args=[])), mode=mode
    ) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == set(ARGUMENTS), [tool.name for tool in tools]
        for tool in tools:
            result = await client.call_tool(
                tool.name, ARGUMENTS[tool.name], progress_callback=on_progress
            )
            assert not result.is_error, result
            structured = result.structured_content
            assert json.loads(result.content[0].text) == structured
            assert structured["meta"]["target"].startswith("ssh:"), structured["meta"]
            print(mode, tool.name, len(result.content[0].text), "bytes")
        wrong = await client.call_tool("process_list", {"limit": 0})
        assert wrong.is_error and "limit is 0: expected 1 to 200" in wrong.content[0].text, wrong
        assert any("connected" in message for message in progress), progress


asyncio.run(main(sys.argv[1], sys.argv[2]))
