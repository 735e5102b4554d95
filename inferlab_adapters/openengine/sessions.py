"""KV sessions between servers: sealed by prefill, checked by decode, each used once.

The seal is one more attribute, ``oe``: when it was issued and when it expires (Unix seconds), the
model, the session's id once more, and a digest of all there is in the session. Without a key of
one's own the digest detects accidents; with one, also forgery.
"""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from inferlab_adapters.addresses import host_problem
from inferlab_adapters.openengine import structs
from inferlab_adapters.openengine.engine import EngineFault, KvSession

_log = logging.getLogger(__name__)

SEAL = "oe"
"""The attribute that holds the seal."""

LIFETIME = 120.0
"""Seconds between prefill and decode."""

_PUBLIC_KEY = b"inferlab-openengine-sessions"
_SKEW = 5.0
"""Seconds by which clocks of two machines may differ."""


class SessionSeal:
    """Makes seals and checks them; remembers which sessions were used until they expire."""

    def __init__(self, key: bytes | None, lifetime: float = LIFETIME) -> None:
        self.public = key is None
        self._key = key or _PUBLIC_KEY
        self._lifetime = lifetime
        self._used: OrderedDict[str, float] = OrderedDict()

    def warn(self) -> None:
        """Say once that sessions are not protected, on a server that takes part in transfers."""
        if self.public:
            _log.warning(
                "KV sessions are sealed with a key that everybody knows; "
                "give all servers the same --session-key-file"
            )

    def seal(self, session: KvSession, model: str) -> KvSession:
        """The session with a seal, as it goes to the client."""
        now = time.time()
        seal = {
            "issued_at": round(now, 3),
            "expires_at": round(now + self._lifetime, 3),
            "model": model,
            "nonce": session.session_id,
        }
        try:
            attributes = structs.settled({**session.attributes, SEAL: seal})
        except ValueError as error:
            raise EngineFault("internal", f"the KV session cannot travel: {error}") from None
        sealed = replace(session, attributes=attributes)
        seal = {**attributes[SEAL], "digest": self._digest(sealed)}
        return replace(sealed, attributes={**attributes, SEAL: seal})

    def check(self, session: KvSession, model: str, backend: str | None) -> KvSession:
        """The session without its seal, as the engine gets it.

        Raises ``invalid_argument`` for one that no server made, ``kv_transfer_failed`` for one
        that another kind of server made, ``kv_session_not_found`` for one that is over.
        """
        if not session.session_id:
            raise _odd("session_id is empty")
        seal = session.attributes.get(SEAL)
        if not isinstance(seal, Mapping) or not isinstance(seal.get("digest"), str):
            raise _odd("it has no seal")
        bare = {name: value for name, value in seal.items() if name != "digest"}
        unsealed = {name: value for name, value in session.attributes.items() if name != SEAL}
        asked = replace(session, attributes={**session.attributes, SEAL: bare})
        try:
            digest = self._digest(asked)
        except ValueError as error:
            raise _odd(str(error)) from None
        if not hmac.compare_digest(digest.encode(), seal["digest"].encode()):
            raise _odd("its seal does not match; it was changed, or sealed with another key")
        issued, expires = bare.get("issued_at"), bare.get("expires_at")
        if not isinstance(issued, int | float) or not isinstance(expires, int | float):
            raise _odd("its seal has no times")
        if bare.get("nonce") != session.session_id:
            raise _odd("its seal is another session's")
        now = time.time()
        if expires < now:
            raise EngineFault("kv_session_not_found", "kv.session: it has expired; prefill again")
        if issued > now + _SKEW or expires > now + self._lifetime + _SKEW:
            raise _odd("it was issued in the future; compare the servers' clocks")
        if bare.get("model") != model:
            what = f"it was made for the model {bare.get('model')!r}, not {model!r}"
            raise EngineFault("kv_transfer_failed", f"kv.session: {what}")
        if backend is not None and session.transfer_backend != backend:
            what = f"it was made for {session.transfer_backend!r}, this server uses {backend!r}"
            raise EngineFault("kv_transfer_failed", f"kv.session.transfer_backend: {what}")
        _check_endpoints(session)
        if session.session_id in self._used:
            what = "kv.session: it was used before; prefill again"
            raise EngineFault("kv_session_not_found", what)
        return replace(session, attributes=unsealed)

    def use(self, session: KvSession) -> None:
        """Nobody else may use the session any more."""
        now = time.time()
        while self._used and next(iter(self._used.values())) < now:
            self._used.popitem(last=False)
        # The seal may come from a clock that is a little behind.
        self._used[session.session_id] = now + self._lifetime + 2 * _SKEW

    def used(self, session: KvSession) -> bool:
        """Whether it was used."""
        return session.session_id in self._used

    def unuse(self, session: KvSession) -> None:
        """The engine did not take the request: the session may be tried again."""
        self._used.pop(session.session_id, None)

    def _digest(self, session: KvSession) -> str:
        data = {
            "session_id": session.session_id,
            "transfer_backend": session.transfer_backend,
            "endpoints": [[e.host, e.port, e.protocol] for e in session.endpoints],
            "dp_rank": session.dp_rank,
            "attributes": structs.settled(session.attributes),
        }
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()


class IssuedSessions:
    """The sessions that this prefill server gave out and that may still be open."""

    def __init__(self, lifetime: float = LIFETIME) -> None:
        self._lifetime = lifetime
        self._sessions: OrderedDict[str, tuple[float, KvSession]] = OrderedDict()
        self._ended: OrderedDict[str, float] = OrderedDict()

    def add(self, session: KvSession) -> None:
        """Remember a session, without its seal."""
        now = time.monotonic()
        self._forget(now)
        self._sessions[session.session_id] = (now + self._lifetime, session)

    def find(self, session_id: str) -> KvSession | None:
        """A session that was given out and has not expired."""
        self._forget(time.monotonic())
        found = self._sessions.get(session_id)
        return found[1] if found else None

    def end(self, session_id: str) -> None:
        """It is open no more."""
        self._sessions.pop(session_id, None)
        self._ended[session_id] = time.monotonic() + self._lifetime

    def ended(self, session_id: str) -> bool:
        """Whether it was here and has ended."""
        return session_id in self._ended

    def all(self) -> tuple[KvSession, ...]:
        """Every session that may be open."""
        self._forget(time.monotonic())
        return tuple(session for _, session in self._sessions.values())

    def _forget(self, now: float) -> None:
        while self._sessions and next(iter(self._sessions.values()))[0] < now:
            self._sessions.popitem(last=False)
        while self._ended and next(iter(self._ended.values())) < now:
            self._ended.popitem(last=False)


def _check_endpoints(session: KvSession) -> None:
    if not session.endpoints:
        raise _odd("it names no endpoint")
    for endpoint in session.endpoints:
        problem = host_problem(endpoint.host)
        if problem is not None:
            raise _odd(f"{problem[0]}; {problem[1]}")
        if not 0 < endpoint.port < 65536:
            raise _odd(f"{endpoint.port} is no port")


def _odd(what: str) -> EngineFault:
    return EngineFault("invalid_argument", f"kv.session: {what}; send what PrefillReady carried")
