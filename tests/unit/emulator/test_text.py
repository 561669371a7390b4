from hypothesis import given
from hypothesis import strategies as st

from tidegate.emulator import text

turns = st.lists(
    st.tuples(st.sampled_from(["system", "user"]), st.text(max_size=200)), min_size=1, max_size=5
)


@given(turns, st.integers(1, 100))
def test_the_next_turn_begins_with_the_turn_before(turns, tokens):
    prompt = text.chat_prompt(turns)
    answer = text.answer(prompt, tokens)
    longer = text.chat_prompt([*turns, ("assistant", answer), ("user", "and then?")])

    before = text.block_hashes(prompt + answer.encode(), block_tokens=16)
    assert longer.startswith(prompt + answer.encode())
    assert text.block_hashes(longer, block_tokens=16)[: len(before)] == before


@given(st.text(max_size=300), st.integers(1, 300), st.integers(1, 300))
def test_a_token_is_four_bytes(words, few, many):
    few, many = sorted((few, many))
    prompt = text.plain_prompt(words)

    assert text.tokens_in(prompt) == max(1, -(-len(words.encode()) // 4))
    answer = text.answer(prompt, many)
    assert text.tokens_in(answer.encode()) == many
    assert answer.startswith(text.answer(prompt, few))


def test_the_same_prompt_gets_the_same_answer_and_another_seed_another():
    prompt = text.plain_prompt("once upon a tide")

    assert text.answer(prompt, 5) == "few who too way see "
    assert text.answer(prompt, 5, seed=1) != text.answer(prompt, 5)
    assert 16 <= text.natural_tokens(prompt) == text.natural_tokens(prompt) <= 271


def test_different_prompts_share_hashes_up_to_where_they_part():
    one = text.block_hashes(text.plain_prompt("a" * 200 + "b" * 200), block_tokens=16)
    two = text.block_hashes(text.plain_prompt("a" * 200 + "c" * 200), block_tokens=16)
    assert [x == y for x, y in zip(one, two, strict=True)] == [True] * 3 + [False] * 3
