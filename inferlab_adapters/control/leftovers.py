"""What a deployment left behind after its end: processes, ports, GPU memory."""

from __future__ import annotations

from collections.abc import Mapping

from inferlab_adapters.control.channel import channels
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.refusal import Failed

MEMORY_BYTES = 64 * 1024 * 1024
"""GPU memory in use may differ by so much without a reason: the driver keeps some."""


def leftovers(
    prepared: Prepared,
    run: str,
    *,
    before: Mapping[int, int] | None = None,
    after: Mapping[int, int] | None = None,
) -> list[str]:
    """A sentence for everything that is still there, none when all is gone.

    ``run`` is the value of the marker in its processes' environment. ``before`` and ``after`` are
    this machine's GPU memory in bytes, as :func:`.gpus.memory_used` tells; only GPUs that the
    deployment had count. A machine that cannot be asked is one more sentence.
    """
    found: list[str] = []
    names = [one["machine"] for one in prepared.allocations]
    for name, channel in channels(prepared.machines, names).items():
        here = [one for one in prepared.allocations if one["machine"] == name]
        ports = {
            (one["host"], one["port"]): f"{label} of {allocation['process']}"
            for allocation in here
            for label, one in {
                "endpoint": allocation.get("endpoint"),
                **allocation["ports"],
            }.items()
            if one
        }
        try:
            found += [f"{entry} on {name} still runs" for entry in channel.table(run).of_run(())]
            for address, why in channel.busy(list(ports)).items():
                found.append(f"port {address[1]} ({ports[address]}) {why} on machine {name}")
        except Failed as failed:
            found.append(failed.message)
    devices = {
        device
        for one in prepared.allocations
        if (machine := prepared.machines[one["machine"]]).ssh is None
        and machine.devices is not None
        for device in one["devices"]
    }
    for device in sorted(devices & set(before or ()) & set(after or ())):
        more = (after or {})[device] - (before or {})[device]
        if more > MEMORY_BYTES:
            found.append(f"GPU {device} has {more / 2**20:.0f} MiB more in use than before")
    return found
