"""Buckets and hubs: what is listed, in whose name it is asked for, and where keys never go."""

import dataclasses

import pytest

from integration.weights_world import (
    COMMIT,
    KEYS,
    MIB,
    REGION,
    TOKEN,
    Bucket,
    Hub,
    Node,
    Sources,
    noise,
    serving,
    sha256,
)
from tidegate.weights.errors import WeightsError, WrongChecksum
from tidegate.weights.settings import Endpoints
from tidegate.weights.signing import AwsKeys
from tidegate.weights.source import parsed, tree_digest
from tidegate.weights.store import Store


@pytest.fixture
async def bucket():
    async with serving(Bucket()) as sources:
        for name, size in (
            ("config.json", 300),
            ("model-1.safetensors", 3 * MIB),
            ("sub dir/vocab+1.txt", 20),
        ):
            sources.put(f"/models/tiny/v1/{name}", noise(size, seed=size))
        sources.put("/models/tiny/v10/other", b"not below the prefix")
        yield sources


@pytest.fixture
def reader(tmp_path, bucket):
    return Node(Store(tmp_path / "cache"), Endpoints(s3=bucket.url, s3_region=REGION, aws_keys=KEYS))


async def test_all_below_a_prefix_comes_page_by_page_signed_and_checked(reader, bucket):
    ref = await reader.fetch("s3://models/tiny/v1/")

    assert set(ref.files) == {"config.json", "model-1.safetensors", "sub dir/vocab+1.txt"}
    pin = reader.store.pin(parsed("s3://models/tiny/v1/"))
    assert pin.path.is_dir()
    for name in ref.files:
        assert (pin.path / name).read_bytes() == bucket.files[f"/models/tiny/v1/{name}"]
    pin.let_go()
    assert sum("list-type" in asked.query for asked in bucket.asked) == 2
    assert ref.digest == tree_digest({name: file.sha256 for name, file in ref.files.items()})


async def test_a_folder_is_held_to_the_checksum_of_its_list(reader, bucket):
    ref = await reader.fetch("s3://models/tiny/v1/")

    again = await reader.fetch("s3://models/tiny/v1/", ref.digest)

    assert again.digest == ref.digest
    with pytest.raises(WrongChecksum, match=f"has the SHA-256 {ref.digest}, not {'1' * 64}"):
        await reader.fetch("s3://models/tiny/v1/", "1" * 64)


async def test_one_object_with_the_checksum_that_the_bucket_keeps(reader, bucket):
    data = bucket.files["/models/tiny/v1/model-1.safetensors"]

    ref = await reader.fetch("s3://models/tiny/v1/model-1.safetensors")

    assert reader.read("s3://models/tiny/v1/model-1.safetensors") == data
    assert ref.files["model-1.safetensors"].sha256 == sha256(data)
    assert bucket.asked[0].method == "HEAD"


async def test_a_session_token_is_signed_too_and_wrong_keys_are_said_without_them(reader, bucket):
    keys = AwsKeys("AKIDTEST", "wrong-secret-of-the-test", "session-token-of-the-test")
    reader.endpoints = dataclasses.replace(reader.endpoints, aws_keys=keys)

    with pytest.raises(WeightsError, match="403: it needs a key") as caught:
        await reader.fetch("s3://models/tiny/v1/")

    lower = {name.lower(): value for name, value in bucket.asked[0].headers.items()}
    assert lower["x-amz-security-token"] == "session-token-of-the-test"
    assert "x-amz-security-token" in lower["authorization"]
    for secret in ("wrong-secret", "session-token", "AKIDTEST", "Signature"):
        assert secret not in str(caught.value)


async def test_an_empty_prefix_and_an_unnamed_endpoint_are_said(reader, bucket):
    with pytest.raises(WeightsError, match="s3://models/none/ holds no file"):
        await reader.fetch("s3://models/none/")

    reader.endpoints = Endpoints()
    with pytest.raises(WeightsError, match=r"set weights\.s3_endpoint, or AWS_ENDPOINT_URL_S3"):
        await reader.fetch("s3://models/tiny/v1/x")
    with pytest.raises(WeightsError, match=r"set weights\.hub_endpoint, or HF_ENDPOINT"):
        await reader.fetch("hf://org/tiny")


# ---- hub ----


@pytest.fixture
async def storage():
    async with serving(Sources()) as sources:
        yield sources


@pytest.fixture
async def hub(storage):
    async with serving(Hub()) as sources:
        sources.add("config.json", b'{"model_type": "llama"}', lfs=False)
        sources.add("tokenizer/vocab.json", b"{}", lfs=False)
        for name, seed in (("model-00001-of-00002.safetensors", 1), ("model-00002-of-00002.safetensors", 2)):
            data = sources.add(name, noise(2 * MIB, seed), lfs=True)
            storage.put(f"/{sources.repo}/resolve/{COMMIT}/{name}", data)
        sources.add("pytorch_model.bin", noise(2 * MIB, 3), lfs=True)
        sources.add("README.md", b"# Tiny", lfs=False)
        sources.storage = storage.url
        yield sources


@pytest.fixture
def guest(tmp_path, hub):
    return Node(Store(tmp_path / "cache"), Endpoints(hub=hub.url, hub_token=TOKEN))


async def test_a_repository_comes_as_one_commit_without_second_copies(guest, hub, storage):
    ref = await guest.fetch("hf://org/tiny")

    assert ref.revision == COMMIT
    assert set(ref.files) == {
        "config.json",
        "tokenizer/vocab.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    }
    pin = guest.store.pin(parsed("hf://org/tiny"))
    assert (pin.path / "tokenizer" / "vocab.json").read_bytes() == b"{}"
    pin.let_go()


async def test_the_token_goes_to_the_hub_and_never_to_where_it_redirects(guest, hub, storage):
    hub.is_gated = True

    await guest.fetch("hf://org/tiny@main/model-00001-of-00002.safetensors")

    assert hub.asked
    assert storage.asked
    assert {asked.headers["Authorization"] for asked in hub.asked} == {f"Bearer {TOKEN}"}
    for asked in storage.asked:
        assert "Authorization" not in asked.headers
        assert TOKEN not in str(asked.headers)


async def test_a_gated_repository_without_a_token(tmp_path, hub):
    hub.is_gated = True
    guest = Node(Store(tmp_path / "cache"), Endpoints(hub=hub.url, hub_token="another-token"))

    with pytest.raises(WeightsError, match="401: it needs a key") as caught:
        await guest.fetch("hf://org/tiny")

    assert "another-token" not in str(caught.value)


async def test_small_files_are_checked_by_the_name_that_git_gives_them(guest, hub):
    path = f"/{hub.repo}/resolve/{COMMIT}/config.json"
    hub.put(path, b'{"model_type": "wrong"}')

    with pytest.raises(WrongChecksum, match="is not the file that the repository lists"):
        await guest.fetch("hf://org/tiny")


async def test_a_shard_that_is_not_what_the_hub_lists_is_refused_without_its_signature(guest, hub, storage):
    storage.put(f"/{hub.repo}/resolve/{COMMIT}/model-00001-of-00002.safetensors", noise(2 * MIB, 9))

    with pytest.raises(WrongChecksum) as caught:
        await guest.fetch("hf://org/tiny")

    assert "signature" not in str(caught.value).lower()


async def test_a_file_that_is_not_listed_and_a_checksum_that_the_hub_contradicts(guest, hub):
    with pytest.raises(WeightsError, match=rf"org/tiny at {COMMIT[:12]} has no file other\.gguf"):
        await guest.fetch("hf://org/tiny/other.gguf")

    with pytest.raises(WrongChecksum, match="has the SHA-256"):
        await guest.fetch("hf://org/tiny/model-00001-of-00002.safetensors", "2" * 64)


async def test_names_that_would_leave_the_folder_are_refused(guest, hub):
    hub.listed = [("../../etc/cron.d/evil", b"x", False)]

    with pytest.raises(WeightsError, match="lists a file that cannot be put into a folder"):
        await guest.fetch("hf://org/tiny")


async def test_a_second_commit_fetches_only_what_has_changed(guest, hub, storage):
    await guest.fetch("hf://org/tiny")
    hub.listed = [entry for entry in hub.listed if entry[0] != "config.json"]
    hub.add("config.json", b'{"model_type": "llama", "new": 1}', lfs=False)
    storage.asked.clear()

    ref = await guest.fetch("hf://org/tiny", again=True)

    assert storage.asked == []
    assert ref.files["config.json"].size == 33
