"""What a level of evidence is to whoever verifies it; what built the bounds is not asked."""

from __future__ import annotations

from dataclasses import dataclass

from tether.foundation.errors import CertificateError


@dataclass(frozen=True)
class Level:
    """Of evidence.

    Attributes:
        claims: whether anything is claimed at all.
        everywhere: whether of every input of the domain, so that it holds where float32 rounds to.
        by_code: whether by M's own code, which can be followed over other sets too.
    """

    claims: bool = True
    everywhere: bool = True
    by_code: bool = False

    @property
    def of_a_share(self) -> bool:
        """Whether the claim is of a share of the inputs."""
        return self.claims and not self.everywhere


_LEVELS = {
    "proved": Level(by_code=True),
    "lipschitz": Level(),
    "statistical": Level(everywhere=False),
    "sampled": Level(claims=False, everywhere=False),
}


def level_of(evidence: str) -> Level:
    """The level of a name.

    Raises:
        CertificateError: there is none.
    """
    if evidence not in _LEVELS:
        raise CertificateError(f"not verified: evidence {evidence!r} is not a level that is known.")
    return _LEVELS[evidence]
