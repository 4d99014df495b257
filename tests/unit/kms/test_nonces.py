"""Nonces: single use, thirty seconds, and asking for many fills nothing."""

import os

import pytest

from bytewise.protocol.errors import EvidenceRefused, TryAgain
from bytewise.protocol.units import Digest
from kms.nonces import LIFETIME_S, NonceBook

NOW = 1_800_000_000


def test_a_nonce_is_taken_once() -> None:
    book = NonceBook(os.urandom)
    nonce = book.issue(NOW)
    assert len(nonce) == 32 and book.verify_fresh(nonce, NOW + LIFETIME_S - 1) == nonce
    book.consume(nonce, NOW)
    for take in (book.verify_fresh, book.consume):
        with pytest.raises(EvidenceRefused):
            take(nonce, NOW)


@pytest.mark.parametrize("age", [LIFETIME_S, LIFETIME_S + 1, 10_000, -1])
def test_a_nonce_of_another_time_is_refused(age: int) -> None:
    book = NonceBook(os.urandom)
    with pytest.raises(EvidenceRefused):
        book.verify_fresh(book.issue(NOW), NOW + age)


def test_an_altered_nonce_or_one_of_before_a_restart_is_refused() -> None:
    book = NonceBook(os.urandom)
    nonce = book.issue(NOW)
    for position in range(32):
        altered = bytearray(nonce)
        altered[position] ^= 1
        with pytest.raises(EvidenceRefused):
            book.verify_fresh(Digest(bytes(altered)), NOW)
    with pytest.raises(EvidenceRefused):
        NonceBook(os.urandom).verify_fresh(nonce, NOW)


def test_used_nonces_are_bounded_and_forgotten_only_after_they_expired() -> None:
    book = NonceBook(os.urandom, capacity=2)
    first = book.issue(NOW)
    for nonce in (first, book.issue(NOW)):
        book.consume(nonce, NOW)
    for _ in range(10_000):
        book.issue(NOW)
    with pytest.raises(TryAgain):
        book.consume(book.issue(NOW), NOW)
    later = NOW + LIFETIME_S
    book.consume(book.issue(later), later)
    with pytest.raises(EvidenceRefused):
        book.verify_fresh(first, later)
