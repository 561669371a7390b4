import hashlib

from tidegate.config.settings import Client
from tidegate.core.types import FlowId
from tidegate.gateway.auth import ANYBODY, Keys

TEAM = Client(FlowId("team"), 2)


def digest(key):
    return hashlib.sha256(key).hexdigest()


def test_without_keys_everybody_is_welcome():
    assert Keys({}).client(None) is ANYBODY
    assert Keys({}).client(b"Bearer whatever") is ANYBODY


def test_a_key_is_known_by_its_hash_in_either_case():
    keys = Keys({digest(b"sk-1").upper(): TEAM})
    for _ in range(2):
        assert keys.client(b"Bearer sk-1") is TEAM
        assert keys.client(b"bearer sk-1") is TEAM
    for wrong in (
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer sk-2",
        b"Basic sk-1",
        b"sk-1",
        b"Bearer " + digest(b"sk-1").encode(),
    ):
        assert keys.client(wrong) is None


def test_wrong_keys_are_not_remembered():
    keys = Keys({digest(b"sk-1"): TEAM})
    for number in range(1000):
        keys.client(b"Bearer guess-%d" % number)
        keys.client(b"Bearer sk-1")
    assert len(keys._seen) == 1
    assert "sk-1" not in repr(keys)
