"""Times an ipykernel through jupyter_client, the way notebook servers drive it.

Usage: kernel.py ROUNDS STARTS, a JSON list of snippets on standard input. Prints one JSON object:
`start` (ms from nothing to the first result), `warm` (for each snippet, ms per execution), `quiet`
(the same with a pause of 100 ms before each) and `memory` (MiB that one idle kernel adds to the machine's use, proportional set size).
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
    times = {0.0: {}, 0.1: {}}
    for snippet in snippets:
        for gap, of in times.items():
            run(client, snippet)
            of[snippet] = []
            for _ in range(rounds):
                time.sleep(gap)
                before = time.perf_counter()
                run(client, snippet)
                of[snippet].append((time.perf_counter() - before) * 1000)
    used = memory(manager.provisioner.pid)
    end(manager, client)
    found = {"start": started, "warm": times[0.0], "quiet": times[0.1], "memory": used}
    print(json.dumps(found))


main()
