"""Two revisions with the same names in one process."""

import subprocess
import sys

import pytest
from google.protobuf import descriptor_pool, struct_pb2
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped, unused-ignore]
from grpc_reflection.v1alpha import reflection_pb2

from inferlab_adapters.openengine.revisions import PACKAGE, REVISIONS, SEED, V0_1_0, Revision

BOTH = pytest.mark.parametrize("revision", [SEED, V0_1_0], ids=lambda revision: revision.name)


def test_the_same_bytes_mean_other_things_in_the_other_revision() -> None:
    seed = SEED.message("KvOptions")(bypass_prefix_cache=False, data_parallel_rank=3)
    v0_1_0 = V0_1_0.message("KvOptions").FromString(seed.SerializeToString())
    assert v0_1_0.bypass_prefix_cache is True
    assert seed.data_parallel_rank == 3


def test_the_default_pool_knows_neither() -> None:
    for revision in REVISIONS.values():
        revision.message("GenerateRequest")
    health_pb2.HealthCheckRequest()
    reflection_pb2.ServerReflectionRequest()
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(f"{PACKAGE}.GenerateRequest")


def test_generated_modules_of_a_client_can_be_beside_them() -> None:
    # A client's own openengine_pb2 adds its file to the default pool, before us or after us.
    code = """
from google.protobuf import descriptor_pool, struct_pb2
from inferlab_adapters.openengine.revisions import SEED, V0_1_0
V0_1_0.message("GenerateRequest")
for file in V0_1_0.files:
    if file.package != "google.protobuf":
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
SEED.message("GenerateRequest")
found = descriptor_pool.Default().FindMessageTypeByName("openengine.v1.GenerateRequest")
assert found is not V0_1_0.message("GenerateRequest").DESCRIPTOR
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@BOTH
def test_struct_is_the_pool_s_own(revision: Revision) -> None:
    session = revision.message("KvSessionRef")(session_id="a")
    session.attributes_struct.fields["port"].number_value = 5
    assert type(session.attributes_struct) is revision.message("google.protobuf.Struct")
    assert type(session.attributes_struct) is not struct_pb2.Struct
    again = revision.message("KvSessionRef").FromString(session.SerializeToString())
    assert again == session


@BOTH
def test_a_message_class_is_made_once(revision: Revision) -> None:
    made = revision.message("GenerateRequest")
    assert made is revision.message("GenerateRequest")
    assert made is revision.message("openengine.v1.GenerateRequest")
    assert made is revision.method(revision.service_of("Generate"), "Generate").request


@BOTH
def test_every_rpc_is_found_by_its_name(revision: Revision) -> None:
    for service in revision.services:
        assert revision.methods(service)
        for name in revision.methods(service):
            method = revision.method(service, name)
            assert revision.service_of(name) == service
            assert method.path == f"/{service}/{name}"
            streams = ("Generate", "Drain", "SubscribeKvEvents", "SubscribeRuntimeEvents")
            assert method.server_streaming is (name in streams)


def test_services_are_full_names() -> None:
    assert SEED.services == ("openengine.v1.OpenEngine",)
    assert V0_1_0.services == ("openengine.v1.Inference", "openengine.v1.Control")
    assert SEED.method("OpenEngine", "Health") == SEED.method(SEED.services[0], "Health")
    assert V0_1_0.method("Control", "Abort").request is V0_1_0.message("AbortRequest")


def test_enums_have_their_own_numbers() -> None:
    assert SEED.enum("ErrorCode").Value("ERROR_CODE_INTERNAL") == 12
    assert V0_1_0.enum("ErrorCode").Value("ERROR_CODE_INTERNAL") == 11
    assert V0_1_0.enum("HealthState").Name(4) == "HEALTH_STATE_NOT_READY"


def test_what_a_revision_has_not_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        V0_1_0.message("EmbedRequest")
    with pytest.raises(KeyError):
        V0_1_0.enum("DrainState")
    with pytest.raises(KeyError):
        V0_1_0.method("Control", "Drain")
    with pytest.raises(KeyError, match="Drain: no RPC of OpenEngine v0"):
        V0_1_0.service_of("Drain")


@BOTH
def test_the_release_is_immutable(revision: Revision) -> None:
    assert (revision.schema_revision, revision.minimum_client_revision) == (1, 1)
    assert len(revision.schema_release) in (32, 40)
    assert int(revision.schema_release, 16)
    assert REVISIONS[revision.name] is revision


def test_importing_reads_nothing() -> None:
    code = """
from inferlab_adapters.openengine import revisions
assert not any("pool" in vars(revision) for revision in revisions.REVISIONS.values())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
