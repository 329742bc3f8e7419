"""Policies and rules as functions of two arguments, as M is one: so they are read and tried alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def of_states(policy: Callable[..., Any]) -> Callable[..., Any]:
    """Controls of states alone, as a function of states and of nothing."""

    def function(states: Any, _: Any) -> Any:
        return policy(states)

    return function


def of_predictions(rule: Callable[..., Any], controls: int) -> Callable[..., Any]:
    """What follows of states, controls and predictions, as a function of states and of both others beside."""

    def function(states: Any, others: Any) -> Any:
        return rule(states, others[:, :controls], others[:, controls:])

    return function
