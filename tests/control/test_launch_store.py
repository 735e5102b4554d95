"""Launch files: whole or not at all, and only rewritten when they differ."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferlab_adapters.control.launch_store import location, put
from inferlab_adapters.control.refusal import Failed
from inferlab_adapters.control.types import Json
from tests.control.fake_engine import Launcher, engine, prepared

TEXT = "key: wert ü\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def a_file(text: str = TEXT, **fields: str) -> Json:
    sha = digest(text)
    return {"relative_path": f"launch-files/{sha}/a.yaml", "text": text, "sha256": sha, **fields}


def test_a_file_is_written_with_its_folders_and_nothing_else(tmp_path: Path) -> None:
    path = location(f"{tmp_path}/cache/", a_file())
    assert path == f"{tmp_path}/cache/launch-files/{digest(TEXT)}/a.yaml"
    assert put(path, TEXT, digest(TEXT))
    assert Path(path).read_text("utf-8") == TEXT
    assert os.listdir(Path(path).parent) == ["a.yaml"]


def test_a_file_with_the_right_digest_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    assert put(str(path), TEXT, digest(TEXT))
    inode = path.stat().st_ino
    assert not put(str(path), TEXT, digest(TEXT))
    assert path.stat().st_ino == inode


def test_a_file_that_differs_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("half of it")
    with open(path) as reader:
        assert put(str(path), TEXT, digest(TEXT))
        assert reader.read() == "half of it"
    assert path.read_text("utf-8") == TEXT


@pytest.mark.parametrize("relative", ["/etc/passwd", "../../x", "a/../../x", ""])
def test_a_file_outside_of_the_cache_is_refused(relative: str) -> None:
    with pytest.raises(Failed, match="is not below the cache folder"):
        location("/cache", a_file(relative_path=relative))


def test_a_text_that_is_not_its_digests_is_refused() -> None:
    with pytest.raises(Failed, match="has the digest"):
        location("/cache", a_file(sha256=digest("other")))


def test_a_folder_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    with pytest.raises(Failed, match=r"cannot write the launch file .*a\.yaml: Is a directory"):
        put(str(tmp_path / "a.yaml"), TEXT, digest(TEXT))


def test_a_file_in_the_way_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(Failed, match="Not a directory"):
        put(str(tmp_path / "cache" / "a.yaml"), TEXT, digest(TEXT))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "oe-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_nothing_half_written(small_disk: Path) -> None:
    text = "x" * 100_000
    path = small_disk / "a.yaml"
    with pytest.raises(Failed, match=f"{path}: No space left on device"):
        put(str(path), text, digest(text))
    assert os.listdir(small_disk) == []
    put(str(path), TEXT, digest(TEXT))
    with pytest.raises(Failed, match="No space left on device"):
        put(str(path), text, digest(text))
    assert path.read_text("utf-8") == TEXT
    assert os.listdir(small_disk) == ["a.yaml"]


def test_a_full_disk_keeps_everything_from_starting(
    small_disk: Path, launcher: Launcher, tmp_path: Path
) -> None:
    server = engine("server", files={"big.yaml": "x" * 100_000})
    deployment = prepared(tmp_path, engine("first"), server)
    deployment.allocations[1]["cache"] = str(small_disk)
    with pytest.raises(Failed, match="No space left on device"), launcher.up(deployment):
        pass
    assert not [event for event in launcher.events if event.stage == "starting"]
    ((_, state),) = launcher.root.deployments()
    assert not state.holds
