"""Chats: each turn's prompt is all that was said before and something new.

A conversation is one growing text: system prompt, question, answer, question, and so on. Turn k's prompt
is the text so far, so its full blocks are also the first blocks of turn k+1's prompt, and a replica that
has served turn k has them cached. The system prompt's full blocks are shared by all conversations that
use it. A block that is only partly filled at the end of a prompt gets a hash of its own: the next turn
fills it up with other text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tidegate.core.types import Dice
from tidegate.workload.arrival import Arrival
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.chance import exponential
from tidegate.workload.curves import RateCurve
from tidegate.workload.gaps import Gaps
from tidegate.workload.generate import arrival_times
from tidegate.workload.lengths import Spread
from tidegate.workload.traces import BLOCK_TOKENS, Trace


@dataclass(frozen=True, slots=True)
class Chat:
    """What conversations are like."""

    question: Spread
    """New tokens that the user adds each turn."""
    answer: Spread
    turns: Spread
    """Questions a conversation has; one at least is asked."""
    think_mean_s: float = 30.0
    """From the end of an answer to the next question; exponential."""
    answer_tokens_per_s: float = 40.0
    """How fast answers are taken to come, for the moment of the next question: an open trace cannot
    wait for the real one. Clients that do wait are in ``closed_loop``."""
    system_prompts: tuple[int, ...] = (0,)
    """Tokens of each system prompt; a conversation uses one of them, all as likely."""
    max_prompt_tokens: int = 128_000
    """A conversation ends before its prompt would be longer; a first question is cut to fit."""


class Conversation:
    """One text that grows, and the hashes of its full blocks."""

    __slots__ = ("_blocks", "_fresh", "_size", "tokens")

    def __init__(self, shared: tuple[int, ...], tokens: int, fresh: Iterator[int], block_tokens: int) -> None:
        self.tokens = tokens
        self._blocks = list(shared)
        self._fresh = fresh
        self._size = block_tokens

    def __repr__(self) -> str:
        return f"<Conversation tokens={self.tokens} blocks={len(self._blocks)}>"

    def say(self, tokens: int) -> None:
        """Add so many tokens at the end."""
        self.tokens += tokens
        while len(self._blocks) < self.tokens // self._size:
            self._blocks.append(next(self._fresh))

    def prompt(self) -> tuple[int, ...]:
        """The hashes of all of it, a last partial block included."""
        if self.tokens % self._size:
            return (*self._blocks, next(self._fresh))
        return tuple(self._blocks)


class ChatBook:
    """Starts conversations; hands out block hashes and session names that are used once."""

    def __init__(self, chat: Chat, block_tokens: int = BLOCK_TOKENS) -> None:
        longest = max(chat.system_prompts)
        if longest >= chat.max_prompt_tokens:
            message = f"a system prompt has {longest} tokens; it must leave room in {chat.max_prompt_tokens}"
            raise ValueError(message)
        self._chat = chat
        self._size = block_tokens
        self._fresh = count()
        self._sessions = 0
        self._systems = [
            tuple(next(self._fresh) for _ in range(tokens // block_tokens)) for tokens in chat.system_prompts
        ]

    def __repr__(self) -> str:
        return f"<ChatBook sessions={self._sessions} systems={len(self._systems)}>"

    def open(self, dice: Dice) -> Conversation:
        """A new conversation that has said its system prompt."""
        number = dice.below(len(self._systems))
        return Conversation(self._systems[number], self._chat.system_prompts[number], self._fresh, self._size)

    def turns(self, start_s: float, dice: Dice) -> Iterator[Arrival]:
        """All questions of one new conversation, in order of time."""
        chat, talk, now_s = self._chat, self.open(dice), start_s
        session = f"s{self._sessions}"
        self._sessions += 1
        for turn in range(max(1, chat.turns.draw(dice))):
            question, room = chat.question.draw(dice), chat.max_prompt_tokens - talk.tokens
            if question > room and turn > 0:
                return
            question = min(question, room)
            talk.say(question)
            answer = chat.answer.draw(dice)
            yield Arrival(now_s, talk.tokens, answer, session=session, prefix_hashes=talk.prompt())
            talk.say(answer)
            now_s += answer / chat.answer_tokens_per_s + exponential(chat.think_mean_s, dice)


def chats(chat: Chat, starts: RateCurve, dice: Dice, gaps: Gaps | None = None) -> Trace:
    """Conversations that start along the curve; questions that come after its end are still asked."""
    book, builder = ChatBook(chat), TraceBuilder()
    for start_s in arrival_times(starts, dice, gaps):
        for arrival in book.turns(start_s, dice):
            builder.append(arrival)
    return builder.build()
