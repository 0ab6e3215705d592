"""Times an ipykernel through jupyter_client, the way notebook servers drive it.

Usage: kernel.py ROUNDS STARTS, a JSON list of snippets on standard input. Prints one JSON object:
`start` (ms from nothing to the first result), `warm` (for each snippet, ms per execution) and
`memory` (MiB that one idle kernel adds to the machine's use, proportional set size).
"""

import json
import sys
import time

from jupyter_client import KernelManager


def run(client, code):
    done = client.execute_interactive(code, timeout=120, output_hook=lambda message: None)
    content = done["content"]
    if content["status"] != "ok":
        raise SystemExit(f"{code!r} came out as {content}")


def start():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    return manager, client


def end(manager, client):
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def memory(pid):
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    raise SystemExit("smaps_rollup has no Pss")


def main():
    rounds, starts = int(sys.argv[1]), int(sys.argv[2])
    snippets = json.load(sys.stdin)
    started = []
    for _ in range(starts):
        before = time.perf_counter()
        manager, client = start()
        run(client, "x = 1")
        started.append((time.perf_counter() - before) * 1000)
        end(manager, client)
    manager, client = start()
    warm = {}
    for snippet in snippets:
        run(client, snippet)
        times = []
        for _ in range(rounds):
            before = time.perf_counter()
            run(client, snippet)
            times.append((time.perf_counter() - before) * 1000)
        warm[snippet] = times
    used = memory(manager.provisioner.pid)
    end(manager, client)
    print(json.dumps({"start": started, "warm": warm, "memory": used}))


main()
