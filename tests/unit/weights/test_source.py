import hashlib

import pytest

from tidegate.weights.source import is_remote, is_safe_name, parsed, shown, tree_digest


@pytest.mark.parametrize(
    "written, is_folder",
    [
        ("https://files.example/m/model.gguf", False),
        ("http://10.0.0.7:9000/m.gguf?X-Amz-Signature=abc", False),
        ("s3://models/llama/v1/", True),
        ("s3://models/llama/v1/m.gguf", False),
        ("hf://org/name", True),
        ("hf://org/name@v1.2", True),
        ("hf://org/name@main/sub/m.gguf", False),
    ],
)
def test_what_can_be_fetched(written, is_folder):
    assert is_remote(written)
    assert parsed(written).is_folder is is_folder


@pytest.mark.parametrize(
    "written, reason",
    [
        ("https://files.example", "the address of one file"),
        ("https://files.example/m/", "the address of one file"),
        ("https://files.example:port/m", "the address of one file"),
        ("https://team:secret@files.example/m.gguf", "must not hold a name and password"),
        ("s3://models", "s3://BUCKET/KEY"),
        ("s3://models/", "s3://BUCKET/KEY"),
        ("s3://models/../x", "s3://BUCKET/KEY"),
        ("s3://MODELS/x", "s3://BUCKET/KEY"),
        ("hf://name", "hf://OWNER/NAME"),
        ("hf://org/name/../x", "hf://OWNER/NAME"),
        ("ftp://host/x", "must begin with one of https://"),
    ],
)
def test_what_cannot(written, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        parsed(written)

    assert "secret" not in str(caught.value)


def test_a_signature_is_neither_shown_nor_part_of_what_a_source_is():
    one = parsed("https://h.example/b/m.gguf?versionId=7&X-Amz-Date=1&X-Amz-Signature=aa")
    renewed = parsed("https://h.example/b/m.gguf?versionId=7&X-Amz-Date=2&X-Amz-Signature=bb")
    other = parsed("https://h.example/b/m.gguf?versionId=8&X-Amz-Date=2&X-Amz-Signature=bb")

    assert one.key == renewed.key != other.key
    assert one.key != parsed(one.written, "0" * 64).key
    assert repr(one) == "<Source https://h.example/b/m.gguf>"
    assert shown("https://me:pw@h.example/x?sig=1#frag") == "https://h.example/x"


def test_signatures_of_other_stores_are_not_part_of_it_either():
    plain = parsed("https://h.example/m.gguf")
    for query in (
        "X-Goog-Signature=1&X-Goog-Expires=5",
        "sv=2024&se=2026&sp=r&sig=x",
        "Expires=1&Signature=x",
    ):
        assert parsed(f"https://h.example/m.gguf?{query}").key == plain.key


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a/./b", "", "a\\b", "a\0b", "a/"])
def test_names_that_would_leave_a_folder(name):
    assert not is_safe_name(name)


def test_the_digest_of_a_folder_is_that_of_sha256sum():
    files = {"b.txt": "22", "a.txt": "11"}

    assert tree_digest(files) == hashlib.sha256(b"11  a.txt\n22  b.txt\n").hexdigest()
