"""Which trace contexts are passed on."""

from __future__ import annotations

import pytest

from inferlab_adapters.openengine.trace import trace_context

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_a_context_is_passed_on_unchanged() -> None:
    metadata = [("traceparent", PARENT), ("tracestate", "congo=t61rcWkgMzE,1a@v=2"), ("x", "y")]
    assert trace_context(metadata) == {
        "traceparent": PARENT,
        "tracestate": "congo=t61rcWkgMzE,1a@v=2",
    }


def test_a_later_version_may_say_more() -> None:
    later = f"01-{TRACE}-{SPAN}-01-more"
    assert trace_context([("traceparent", later)]) == {"traceparent": later}


@pytest.mark.parametrize(
    "value",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"01-{TRACE}-{SPAN}-01-{'a' * 500}",
    ],
)
def test_a_malformed_parent_takes_the_state_with_it(value: str) -> None:
    assert trace_context([("traceparent", value), ("tracestate", "a=1")]) == {}


def test_a_parent_given_twice_is_dropped() -> None:
    assert trace_context([("traceparent", PARENT), ("traceparent", PARENT)]) == {}


def test_a_state_says_nothing_alone() -> None:
    assert trace_context([("tracestate", "a=1")]) == {}


def test_states_in_several_headers_are_joined_and_empty_members_left_out() -> None:
    metadata = [("tracestate", "a=1, b=2 ,"), ("traceparent", PARENT), ("tracestate", "c=x y")]
    assert trace_context(metadata)["tracestate"] == "a=1,b=2,c=x y"


@pytest.mark.parametrize(
    "value",
    ["a", "A=1", "a=", "a=1,a=2", "a=\x7f", "a=x\r\nevil: y", "a=1=2", "a@b@c=1",
     ",".join(f"k{n}=1" for n in range(33)), f"a={'x' * 9000}"],
)  # fmt: skip
def test_a_malformed_state_is_dropped_alone(value: str) -> None:
    found = trace_context([("traceparent", PARENT), ("tracestate", value)])
    assert found == {"traceparent": PARENT}


def test_bytes_are_no_context() -> None:
    assert trace_context([("traceparent", PARENT.encode())]) == {}
