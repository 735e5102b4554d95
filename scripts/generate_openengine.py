"""Compile the OpenEngine .proto files to the descriptor sets that the package reads.

    python scripts/generate_openengine.py            write them
    python scripts/generate_openengine.py --check    exit 1 with one line when they are stale

No Python code is generated: both revisions name their messages alike, and generated modules would
meet in protobuf's default pool. A set holds no comments, and google/protobuf/struct.proto too, so
that other tools (grpcurl -protoset) can read it alone.
"""

import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "inferlab_adapters" / "openengine" / "proto"

# Each set: where its imports begin, and the folder of its files. The seed's file is called
# seed/openengine/..., so that no file of one revision is called as one of the other: clients of
# reflection remember files by name.
SETS = {
    "seed.binpb": (PROTO, PROTO / "seed"),
    "v0_1_0.binpb": (PROTO / "v0_1_0", PROTO / "v0_1_0"),
}
WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


def compiled(imports: Path, folder: Path) -> bytes:
    """The descriptor set of all .proto files below ``folder``, dependencies first."""
    files = sorted(str(path.relative_to(imports)) for path in folder.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "set"
        command = ["protoc", f"-I{imports}", f"-I{WELL_KNOWN}", "--include_imports"]
        if protoc.main([*command, f"--descriptor_set_out={out}", *files]) != 0:
            raise SystemExit(f"{folder}: protoc refuses these files; see its messages above")
        everything = FileDescriptorSet.FromString(out.read_bytes())
    return everything.SerializeToString(deterministic=True)


def main(arguments: list[str]) -> int:
    """Write the sets, or look whether they are what would be written."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = []
    for name, (imports, folder) in SETS.items():
        target = PROTO / name
        data = compiled(imports, folder)
        if target.exists() and target.read_bytes() == data:
            continue
        stale.append(name)
        if not arguments:
            target.write_bytes(data)
    if stale and arguments:
        print(f"{', '.join(stale)}: stale; run python scripts/generate_openengine.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
