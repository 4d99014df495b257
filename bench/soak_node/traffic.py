"""Plays users of the network. They ask both operators at fixed rates, and sometimes one disputes an honest receipt."""

import random
import threading
from collections import Counter
from collections.abc import Mapping

from bench.soak_node.network import SoakNetwork
from bytewise.protocol.errors.branches import BytewiseError
from cli.demo import actors
from cli.demo.client import Client
from cli.demo.plan import MODEL_NAME, OPERATORS, Question, questions

ANSWER_TOKENS = 16
SPITE_EVERY_S, SPITE_LASTS_S = 180.0, 60.0
"""The first number is the seconds from the end of one challenger of an honest receipt to the start of the next one. The second
number is the seconds for which the process of such a challenger runs."""


class Traffic:
    """Users that ask both operators, in a thread for each operator, until the run ends."""

    def __init__(self, network: SoakNetwork, seed: int, per_minute: Mapping[str, float], stop: threading.Event) -> None:
        self.answers: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._network = network
        self._seed = seed
        self._pause_s = {name: 60.0 / rate for name, rate in per_minute.items()}
        self._stop = stop
        self._newest = ""
        self._threads = [threading.Thread(target=self._ask, args=(name,), daemon=True) for name in OPERATORS]
        self._threads.append(threading.Thread(target=self._spite, daemon=True))

    def start(self) -> None:
        """Starts the threads of the users."""
        for each in self._threads:
            each.start()

    def join(self, timeout_s: float) -> None:
        """Waits for the last answers, at most `timeout_s` seconds for each thread."""
        for each in self._threads:
            each.join(timeout_s)

    def _ask(self, operator: str) -> None:
        site, dice = self._network.site, random.Random(f"{self._seed} {operator}")
        texts = [each.text for each in questions("nothing")]
        client = Client(operator, site.operator_url(operator), site.certificate(operator), MODEL_NAME, ANSWER_TOKENS)
        while not self._stop.wait(self._pause_s[operator]):
            question = Question(operator, dice.choice(texts), 0.8, 0.9, dice.randrange(2**31))
            try:
                answer = client.ask(question, site.openings)
            except (BytewiseError, OSError) as error:
                self.failures[f"{operator} {type(error).__name__}"] += 1
                continue
            answer.opening.unlink()
            self.answers[operator] += 1
            if operator == "honest":
                self._newest = answer.receipt_id
        client.close()

    def _spite(self) -> None:
        """Regularly starts a challenger that disputes the newest honest receipt, whatever the audits say."""
        while not self._stop.wait(SPITE_EVERY_S):
            if not self._newest:
                continue
            with self._network.lock:
                actors.start_challenger(self._network.site, self._network.group, self._newest)
            self._stop.wait(SPITE_LASTS_S)
            self._network.kill("challenger")
