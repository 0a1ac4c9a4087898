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
    "perf_record": {"window_ms": 500},
    "memory_profile": {"pid": os.getpid(), "window_ms": 1000},
    "flamegraph_from_folded": {"folded": "main;work;hash 12\n"},
    "perf_report": {},
    "flamegraph": {},
    "inspect_source": {},
    "syscall_trace": {"window_ms": 500},
    "latency": {"window_ms": 500},
}
# Asked about what perf_record kept.
OF_A_RECORDING = {"perf_report", "flamegraph", "inspect_source"}


async def main(command: str, mode: str) -> None:
    progress = []

    async def on_progress(done, total, message):
        progress.append(message)

    async with Client(
        stdio_client(StdioServerParameters(command=command, args=[])), mode=mode
    ) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == set(ARGUMENTS), [tool.name for tool in tools]
        recording = {}
        for tool in tools:
            arguments = ARGUMENTS[tool.name] | (recording if tool.name in OF_A_RECORDING else {})
            result = await client.call_tool(tool.name, arguments, progress_callback=on_progress)
            assert not result.is_error, result
            structured = result.structured_content
            assert json.loads(result.content[0].text) == structured
            if tool.name == "perf_record":
                recording = {"artifact": structured["meta"]["artifact"]}
            assert structured["meta"]["target"].startswith("ssh:"), structured["meta"]
            print(mode, tool.name, len(result.content[0].text), "bytes")
        wrong = await client.call_tool("process_list", {"limit": 0})
        assert wrong.is_error and "limit is 0: expected 1 to 200" in wrong.content[0].text, wrong
        assert any("connected" in message for message in progress), progress


asyncio.run(main(sys.argv[1], sys.argv[2]))
