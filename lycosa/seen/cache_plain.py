"""The caches in plain Python: the reference with which the kernels are compared, operation by operation.

Slots are a list, lists are lists. Only the decisions that belong to the structures (which slot is freed, which
entry moves where) are the same as in `cache_kernels`, where they are stated.
"""

from __future__ import annotations

from lycosa.url.key import mix

_MASK = (1 << 64) - 1


class Dice:
    """xorshift64* as the kernels roll it."""

    def __init__(self, state: int) -> None:
        self._state = state

    def roll(self, r: int) -> int:
        x = self._state
        x ^= x >> 12
        x = (x ^ (x << 25)) & _MASK
        x ^= x >> 27
        self._state = x
        return (x * 0x2545F4914F6CDD1D & _MASK) >> (64 - r)


class PlainScatter:
    """A scatter table with circular lists: `lists[home]` has the slots of a list, its home first."""

    def __init__(self, r: int, clock: bool, dice: Dice) -> None:
        self.r, self.clock, self.dice = r, clock, dice
        self.slots: list[int | None] = [None] * (1 << r)
        self.marks = [False] * (1 << r)
        self.lists: dict[int, list[int]] = {}
        self.handle = 0

    def _home(self, mixed: int) -> int:
        return mixed >> (64 - self.r)

    def request(self, key: int) -> bool:
        """Request a key: was it there?"""
        mixed = mix(key)
        home = self._home(mixed)
        for slot in self.lists.get(home, []):
            if self.slots[slot] == mixed:
                self.marks[slot] = self.clock
                return True
        if self.slots[home] is not None:
            slot = self._free_slot()
            if slot != home and home in self.lists:
                self.lists[home].insert(1, slot)
                self.slots[slot], self.marks[slot] = mixed, False
                return False
            if slot != home:
                alien = self.slots[home]
                assert alien is not None
                its = self.lists[self._home(alien)]
                its[its.index(home)] = slot
                self.slots[slot], self.marks[slot] = alien, self.marks[home]
        self.slots[home], self.marks[home] = mixed, False
        self.lists[home] = [home]
        return False

    def _free_slot(self) -> int:
        size = len(self.slots)
        if None in self.slots:
            while self.slots[self.handle] is not None:
                self.handle = (self.handle + 1) % size
            found = self.handle
            self.handle = (self.handle + 1) % size
            return found
        if not self.clock:
            return self._evict(self.dice.roll(self.r))
        while self.marks[self.handle]:
            self.marks[self.handle] = False
            self.handle = (self.handle + 1) % size
        victim = self.handle
        self.handle = (self.handle + 1) % size
        return self._evict(victim)

    def _evict(self, victim: int) -> int:
        mixed = self.slots[victim]
        assert mixed is not None
        home = self._home(mixed)
        its = self.lists[home]
        if victim != home:
            its.remove(victim)
        elif len(its) == 1:
            del self.lists[home]
        else:
            second = its.pop(1)
            self.slots[victim], self.marks[victim] = self.slots[second], self.marks[second]
            victim = second
        self.slots[victim] = None
        return victim


class PlainChained:
    """Direct chaining: entries stay in their slots, a dictionary finds them."""

    def __init__(self, r: int, clock: bool, dice: Dice) -> None:
        self.r, self.clock, self.dice = r, clock, dice
        self.slots: list[int] = []
        self.marks: list[bool] = []
        self.where: dict[int, int] = {}
        self.handle = 0

    def request(self, key: int) -> bool:
        """Request a key: was it there?"""
        found = self.where.get(key)
        if found is not None:
            self.marks[found] = self.clock
            return True
        size = 1 << self.r
        if len(self.slots) < size:
            slot = len(self.slots)
            self.slots.append(key)
            self.marks.append(False)
        else:
            if self.clock:
                while self.marks[self.handle]:
                    self.marks[self.handle] = False
                    self.handle = (self.handle + 1) % size
                slot = self.handle
                self.handle = (self.handle + 1) % size
            else:
                slot = self.dice.roll(self.r)
            del self.where[self.slots[slot]]
            self.slots[slot], self.marks[slot] = key, False
        self.where[key] = slot
        return False


class PlainLru:
    """LRU: a dictionary is in order of insertion."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: dict[int, None] = {}

    def request(self, key: int) -> bool:
        """Request a key: was it there?"""
        hit = key in self.held
        if hit:
            del self.held[key]
        elif len(self.held) == self.size:
            del self.held[next(iter(self.held))]
        self.held[key] = None
        return hit


def min_hits(trace: list[int], size: int) -> int:
    """MIN by looking ahead, entry by entry."""
    held: set[int] = set()
    hits = 0
    for t, key in enumerate(trace):
        if key in held:
            hits += 1
            continue
        if len(held) == size:
            rest = trace[t:]
            held.remove(max(held, key=lambda k: rest.index(k) if k in rest else len(trace)))
        held.add(key)
    return hits
