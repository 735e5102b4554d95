"""Inventories: what a file may say of machines, and what is refused, in words."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferlab_adapters.control import gpus, inventory
from inferlab_adapters.control.inventory import Inventory, Machine
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.errors import Fault

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = "examples/inventory/two-nodes.yaml"

Write = Callable[..., str]
SSH_A = {"name": "a", "address": "10.0.0.1", "devices": 8, "launch": "ssh:a"}
SSH_B = {"name": "b", "address": "10.0.0.2", "devices": 8, "launch": "ssh:b"}


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "present", lambda: (0, 1))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(*machines: Any) -> str:
        file = tmp_path / "machines.json"
        file.write_text(json.dumps({"machines": machines}))
        return str(file)

    return put


def only(loaded: Inventory) -> Machine:
    (machine,) = loaded.machines
    return machine


def refusal(file: str) -> str:
    with pytest.raises(Refused) as caught:
        inventory.load(file)
    assert caught.value.source == file
    return "\n".join(str(fault) for fault in caught.value.faults)


def test_the_shortest_entry_is_this_machine(write: Write) -> None:
    file = write({"name": "here"})
    assert inventory.load(file) == Inventory(
        machines=(
            Machine(name="here", address="127.0.0.1", devices=(0, 1), ports=range_of(8000, 8999)),
        ),
        source=file,
    )


def range_of(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


def test_the_fullest_entry(write: Write, tmp_path: Path) -> None:
    entry = {
        "name": "gpu-1.cluster",
        "address": "fd00::1",
        "devices": [3, 1],
        "ports": [9000, "8000-8002", "7000"],
        "models": {"org/m": "/mnt/m", "n": "./n", "hub": "org/name"},
        "launch": "local",
        "engine_env": "envs/vllm",
        "cache": "/var/cache/oe",
    }
    assert only(inventory.load(write(entry))) == Machine(
        name="gpu-1.cluster",
        address="fd00::1",
        devices=(3, 1),
        ports=(9000, 8000, 8001, 8002, 7000),
        models={"org/m": "/mnt/m", "n": str(tmp_path / "n"), "hub": "org/name"},
        engine_env=str(tmp_path / "envs/vllm"),
        cache="/var/cache/oe",
    )


def test_home_folders_and_links_stay_what_they_are(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    (tmp_path / "link").symlink_to("/usr")
    machine = only(inventory.load(write({"name": "a", "engine_env": "~/e", "cache": "link/c"})))
    assert machine.engine_env == "/home/ada/e"
    assert machine.cache == str(tmp_path / "link/c")


@pytest.mark.parametrize(
    ("launch", "target"),
    [
        ({"ssh": "ada@gpu-1"}, "ada@gpu-1"),
        ("ssh:gpu-1", "gpu-1"),
        ("ssh://ada@gpu-1:2222", "ssh://ada@gpu-1:2222"),
        ("local", None),
    ],
)
def test_launch_channels(write: Write, launch: Any, target: str | None) -> None:
    assert only(inventory.load(write({**SSH_A, "launch": launch}))).ssh == target


@pytest.mark.parametrize(
    ("devices", "read"), [(3, (0, 1, 2)), (0, ()), ([], ()), ([7, 2], (7, 2)), ("cpu", None)]
)
def test_devices(write: Write, devices: Any, read: Any) -> None:
    assert only(inventory.load(write({"name": "a", "devices": devices}))).devices == read


def test_a_local_machine_without_gpus_serves_on_its_cpus(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "present", lambda: ())
    assert only(inventory.load(write({"name": "a"}))).devices is None
    assert only(inventory.load(None)).devices is None


def test_without_a_file_it_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-1.lan")
    loaded = inventory.load(None)
    machine = only(loaded)
    assert machine == Machine(
        name="gpu-1.lan", address="127.0.0.1", devices=(0, 1), ports=range_of(8000, 8999)
    )
    assert loaded.source == ""


def test_a_host_name_that_cannot_name_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "ada's laptop")
    assert only(inventory.load(None)).name == "localhost"


def test_a_driver_that_fails_is_not_a_machine_without_gpus(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> tuple[int, ...]:
        raise Refused(Fault("", "the driver fails"))

    monkeypatch.setattr(gpus, "present", fail)
    for file in (None, write({"name": "a"})):
        with pytest.raises(Refused, match="the driver fails"):
            inventory.load(file)
    assert only(inventory.load(write({"name": "a", "devices": 1}))).devices == (0,)


@pytest.mark.parametrize("suffix", ["yaml", "toml"])
def test_yaml_and_toml(tmp_path: Path, suffix: str) -> None:
    text = {
        "yaml": "machines:\n- name: a\n  ports: 8000-8001\n  launch: local\n",
        "toml": '[[machines]]\nname = "a"\nports = "8000-8001"\n',
    }
    file = tmp_path / f"machines.{suffix}"
    file.write_text(text[suffix])
    assert only(inventory.load(str(file))).ports == (8000, 8001)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, '/machines/0/name: must be letters, digits and any of . _ -, got ""'),
        ({"name": "-x"}, '/machines/0/name: must be letters, digits and any of . _ -, got "-x"'),
        ({"name": 3}, "/machines/0/name: must be a string, got number 3"),
        ({"adress": "x"}, '/machines/0/adress: unknown field; did you mean "address"?'),
        ({"gpus": 8}, "/machines/0/gpus: unknown field; remove it"),
        ({"address": "0.0.0.0"}, '/machines/0/address: "0.0.0.0" is a wildcard'),
        ({"address": "a b"}, '/machines/0/address: "a b" is not a host name'),
        ({"address": ""}, "/machines/0/address: the host is empty"),
        ({"devices": None}, "/machines/0/devices: must be a number of devices, a list of their"),
        ({"devices": True}, "/machines/0/devices: must be a number of devices, a list of their"),
        ({"devices": "gpu"}, 'numbers or "cpu", got string "gpu"'),
        ({"devices": -1}, "/machines/0/devices: must be 0 to 1024, got -1"),
        ({"devices": 10**12}, "/machines/0/devices: must be 0 to 1024, got 1000000000000"),
        ({"devices": [0, 0]}, "/machines/0/devices/1: device 0 is listed twice; remove one"),
        ({"devices": [0, "1"]}, "/machines/0/devices/1: must be the number of a device, got str"),
        ({"devices": [2**32]}, "/machines/0/devices/0: must be the number of a device"),
        ({"ports": []}, '/machines/0/ports: is empty; list ports, such as "8000-8999"'),
        ({"ports": None}, '/machines/0/ports: must be a port or a range such as "8000-8999", got'),
        ({"ports": "8000-"}, "/machines/0/ports: must be a port or a range"),
        ({"ports": [True]}, "/machines/0/ports/0: must be a port or a range"),
        ({"ports": 0}, "/machines/0/ports: ports are 1 to 65535, got 0"),
        ({"ports": [80, "65530-65536"]}, "/machines/0/ports/1: ports are 1 to 65535, got"),
        ({"ports": "9-8"}, '/machines/0/ports: the range "9-8" ends before it begins; write "8-9"'),
        ({"ports": ["8-9", 9]}, "/machines/0/ports/1: port 9 is listed twice"),
        ({"models": {"m": ""}}, "/machines/0/models/m: is empty; give the path of the model"),
        ({"models": {"m": "-x"}}, '/machines/0/models/m: "-x" would be read as an option'),
        ({"models": {"m": "/a\0"}}, '/machines/0/models/m: "/a\\u0000" holds control characters'),
        ({"models": {"m": 1}}, "/machines/0/models/m: must be a string, got number 1"),
        ({"engine_env": ""}, "/machines/0/engine_env: is empty; name a folder, or leave it out"),
        ({"cache": None}, "/machines/0/cache: must be a string, got null"),
        ({"launch": "ssh"}, '/machines/0/launch: must be "local", {"ssh": target} or "ssh:target"'),
        ({"launch": {"ssh": "a", "port": 1}}, '/machines/0/launch: must be "local", {"ssh"'),
        ({"launch": {"ssh": 1}}, "/machines/0/launch/ssh: must be a string, got number 1"),
        ({"launch": {"ssh": ""}}, "/machines/0/launch/ssh: the ssh target is empty"),
        ({"launch": "ssh:-oProxyCommand=x"}, 'ssh would read the target "-oProxyCommand=x" as'),
        ({"launch": {"ssh": "a@-oX"}}, '/machines/0/launch/ssh: ssh would read the target "a@-oX"'),
        ({"launch": {"ssh": "a b"}}, 'the ssh target "a b" holds white space or control'),
        ({"launch": {"ssh": "a\0b"}}, "/machines/0/launch/ssh: the ssh target"),
    ],
)
def test_values_that_are_refused(write: Write, change: Any, said: str) -> None:
    assert said in refusal(write({"name": "a", **change}))


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("name", "/machines/0/name: is missing; add it"),
        ("address", "/machines/0/address: is missing; give the host name or IP address"),
        ("devices", "/machines/0/devices: is missing: GPUs are counted on this machine only; give"),
    ],
)
def test_what_a_machine_over_ssh_needs(write: Write, left_out: str, said: str) -> None:
    entry = {key: value for key, value in SSH_A.items() if key != left_out}
    assert said in refusal(write(entry))


@pytest.mark.parametrize("key", ["engine_env", "cache"])
@pytest.mark.parametrize("folder", ["envs/vllm", "~/vllm"])
def test_folders_over_ssh_are_absolute(write: Write, key: str, folder: str) -> None:
    said = refusal(write({**SSH_A, key: folder}))
    assert f"/machines/0/{key}: must be an absolute path on a machine over ssh, got" in said
    assert getattr(only(inventory.load(write({**SSH_A, key: "/opt/x"}))), key) == "/opt/x"


def test_a_model_path_from_the_file_makes_no_sense_over_ssh(write: Write) -> None:
    assert "/machines/0/models/m: must be an absolute path" in refusal(
        write({**SSH_A, "models": {"m": "./m"}})
    )


def test_everything_wrong_is_said_at_once(write: Write) -> None:
    said = refusal(write({**SSH_A, "ports": 0}, {**SSH_B, "devices": -1, "launch": "ssh:-x"}))
    assert [line.split(":")[0] for line in said.splitlines()] == [
        "/machines/0/ports",
        "/machines/1/launch",
        "/machines/1/devices",
    ]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (SSH_A, {**SSH_B, "name": "a"}, '/machines/1/name: "a" is also the name of /machines/0'),
        (
            SSH_A,
            {key: SSH_B[key] for key in ("name", "devices", "launch")},
            "/machines/1/address: is missing; give",
        ),
        (
            SSH_A,
            {**SSH_B, "address": "127.0.0.2"},
            '/machines/1/address: "127.0.0.2" cannot be reached from the other machines',
        ),
        (
            SSH_A,
            {"name": "here", "address": "localhost"},
            '/machines/1/address: "localhost" cannot be reached from the other machines',
        ),
        (
            SSH_A,
            {**SSH_B, "address": "10.0.0.1", "devices": "cpu"},
            '/machines/1/ports: port 8000 also belongs to "a", and both have the address 10.0.0.1',
        ),
        (
            SSH_A,
            {**SSH_B, "launch": "ssh:a", "ports": 1},
            '/machines/1/devices: device 0 also belongs to "a", and both are reached by ssh a',
        ),
        (
            {"name": "a", "address": "10.0.0.1", "ports": 1},
            {"name": "b", "address": "127.0.0.1", "ports": 2},
            '/machines/1/devices: device 0 also belongs to "a", and both are launched locally',
        ),
    ],
)
def test_machines_that_cannot_stand_together(write: Write, one: Any, other: Any, said: str) -> None:
    assert said in refusal(write(one, other))


def test_one_real_machine_may_be_two_on_loopback(write: Write) -> None:
    loaded = inventory.load(
        write(
            {"name": "a", "address": "127.0.0.1", "devices": [0], "ports": "8000-8009"},
            {"name": "b", "address": "127.0.0.1", "devices": [1], "ports": "8010-8019"},
        )
    )
    assert [machine.address for machine in loaded.machines] == ["127.0.0.1", "127.0.0.1"]


def test_one_machine_over_ssh_on_loopback(write: Write) -> None:
    entry = {**SSH_A, "address": "127.0.0.1"}
    assert only(inventory.load(write(entry))).address == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"machines": []}', "/machines: is empty; add a machine"),
        ('{"machines": {}}', "/machines: must be an array, got object {}"),
        ('{"machines": ["a"]}', "/machines/0: must be an object, got string"),
        ("{}", "/machines: is missing; add it"),
        ('{"machine": []}', '/machine: unknown field; did you mean "machines"?'),
        ("[]", "must be an object, got array []"),
        ("{", "not JSON"),
    ],
)
def test_files_that_are_no_inventory(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "machines.json"
    file.write_text(text)
    assert said in refusal(str(file))


def test_no_file(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(str(tmp_path / "none.yaml"))
    with pytest.raises(Refused, match="not read from stdin; give the name of a file"):
        inventory.load("-")


def test_the_example_is_what_the_page_shows() -> None:
    loaded = inventory.load(str(ROOT / EXAMPLE))
    assert [machine.ssh for machine in loaded.machines] == ["ops@node-a", "ops@node-b"]
    assert [len(machine.devices or ()) for machine in loaded.machines] == [8, 8]
    page = (ROOT / "docs/inventory.md").read_text()
    assert f"```yaml\n{(ROOT / EXAMPLE).read_text()}```" in page
    assert EXAMPLE in page


def test_the_page_has_every_key() -> None:
    from inferlab_adapters.control.inventory_file import MachineEntry

    page = (ROOT / "docs/inventory.md").read_text()
    for key in MachineEntry.model_fields:
        assert f"| `{key}` |" in page
