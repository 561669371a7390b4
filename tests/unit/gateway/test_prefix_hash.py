"""Prompts' blocks are hashed in the order of a template, under a secret, for one tenant and one way of asking."""

import json

import pytest

from tidegate.gateway.body import read_json
from tidegate.gateway.prefix_hash import BLOCK_BYTES, BLOCKS_MAX, IMAGE_TOKENS, PromptHasher

SECRET = b"s" * 64
LONG = "tell me about the tide. " * 200


def hasher():
    return PromptHasher(SECRET)


def hashed(body, flow="one", model="m", adapter=None, by=None):
    return (by or hasher()).hashed(
        read_json(json.dumps({"model": "m", **body}).encode()), flow, model, adapter
    )


def chain(body, **more):
    return hashed(body, **more).chain


def said(*contents):
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": content} for n, content in enumerate(contents)]


def common(one, other):
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def test_a_conversations_next_turn_begins_with_the_same_hashes():  # F17
    first = chain({"messages": said(LONG)})
    second = chain({"messages": said(LONG, "It rises.", "And then?")})

    assert len(first) >= 4
    assert common(first, second) == len(first)


def test_the_roles_and_the_tools_are_part_of_it():  # F17
    messages = said(LONG)
    plain = chain({"messages": messages})

    assert common(plain, chain({"messages": [{"role": "system", "content": LONG}]})) == 0
    assert common(plain, chain({"messages": messages, "tools": [{"type": "function"}]})) == 0
    one = chain({"messages": messages, "tools": [{"name": LONG}]})
    assert (
        common(one, chain({"messages": said("else" + LONG), "tools": [{"name": LONG}]})) >= 4
    )  # tools come first


@pytest.mark.parametrize(
    "other",
    [
        {"flow": "two"},
        {"model": "n"},
        {"adapter": "poet"},
    ],
    ids=["tenant", "model", "adapter"],
)
def test_another_tenant_model_or_adapter_shares_no_hash(other):  # F23
    body = {"messages": said(LONG)}

    assert not set(chain(body)) & set(chain(body, **other))


@pytest.mark.parametrize(
    "salt",
    [
        {"cache_salt": "x"},
        {"cache_salt": "y"},
        {"chat_template": "{{ messages }}"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning_effort": "high"},
    ],
)
def test_a_clients_own_salt_and_what_changes_the_template_set_prompts_apart(salt):  # F23
    body = {"messages": said(LONG)}

    assert not set(chain(body)) & set(chain({**body, **salt}))
    assert chain({**body, **salt}) == chain({**body, **salt})


def test_without_the_secret_nobody_can_tell_what_a_hash_stands_for():
    body = {"messages": said(LONG)}

    assert not set(chain(body)) & set(chain(body, by=PromptHasher(b"t" * 64)))
    assert not set(chain(body, by=PromptHasher())) & set(chain(body, by=PromptHasher()))


def test_names_that_join_to_the_same_text_are_not_the_same():
    body = {"messages": said(LONG)}

    assert not set(chain(body, flow="ab", model="c")) & set(chain(body, flow="a", model="bc"))


@pytest.mark.parametrize("body", [{}, {"prompt": ""}, {"messages": []}, {"messages": [{"role": "user"}]}])
def test_what_is_shorter_than_a_block_has_no_hash(body):  # F22
    assert chain(body) == ()


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": LONG},
        {"prompt": list(range(3_000))},
        {"prompt": [LONG, LONG]},
        {"input": LONG},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": LONG}]}]},
    ],
    ids=["text", "token ids", "several", "input", "parts"],
)
def test_every_way_of_writing_a_prompt_is_hashed(body):  # F22
    assert len(chain(body)) >= 4
    assert chain(body) == chain(body)


def test_a_chain_stands_for_all_text_before_it():
    one, other = chain({"prompt": "a" + LONG}), chain({"prompt": "b" + LONG})

    assert not set(one) & set(other)


def test_an_image_counts_as_its_digest_and_a_thousand_tokens():
    def asked(image):
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
        return {"messages": [{"role": "user", "content": [part, {"type": "text", "text": LONG}]}]}

    one = hashed(asked("A" * 2_000_000))

    assert one.image_bytes == 2_000_000 - 4 * IMAGE_TOKENS
    assert len(one.chain) < 15
    assert common(one.chain, chain(asked("A" * 2_000_000))) == len(one.chain)
    assert common(one.chain, chain(asked("A" * 1_999_999 + "B"))) == 0


def test_a_very_long_prompt_is_known_by_its_first_megabyte():
    assert len(chain({"prompt": "x" * (BLOCKS_MAX + 100) * BLOCK_BYTES})) == BLOCKS_MAX


def test_hashes_fit_into_sixty_bits():
    assert all(0 <= block < 2**60 for block in chain({"prompt": LONG}))


def test_the_same_text_as_a_prompt_and_as_an_input_are_two_beginnings():
    text = "a" * 5_000
    chains = [chain({field: text}) for field in ("prompt", "input", "messages")]

    assert [len(found) for found in chains] == [4, 4, 4]
    assert len({found[0] for found in chains}) == 3
